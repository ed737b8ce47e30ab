import Table from 'cli-table3';
import type { Outcome } from './settle';

/** A table of columns without lines. */
export const PLAIN = { top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '', left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '', middle: '  ' };
const MOST_SHOWN = 10;

/** The proof as a table with its sums. */
export function proofTable(outcomes: readonly Outcome[]): string {
  const sums = outcomes.map(numbers).reduce((sum, row) => sum.map((value, at) => value + (row[at] ?? 0)));
  const table = new Table({
    head: ['kill -9 when', 'kills', 'missed', 'acknowledged', 'carried out', 'converged', 'unconfirmed', 'uplinks', 'lost', 'doubled', 'wrong'],
    colAligns: ['left', ...sums.map(() => 'right' as const)],
    style: { head: [], border: [], compact: true },
    chars: PLAIN,
  });
  table.push(...outcomes.map((o) => [o.name, ...numbers(o)]), ['all', ...sums]);
  return table.toString();
}

/** What is wrong, in words. */
export function faults(outcome: Pick<Outcome, 'lost' | 'doubled' | 'wrong' | 'errors' | 'folder'>): string {
  const all = [...outcome.lost.map((text) => `LOST ${text}`), ...outcome.doubled.map((text) => `DOUBLED ${text}`), ...outcome.wrong.map((text) => `WRONG ${text}`), ...outcome.errors.map((text) => `ERROR LINE ${text.slice(0, 400)}`)];
  const more = all.length > MOST_SHOWN ? [`and ${all.length - MOST_SHOWN} more`] : [];
  return [...all.slice(0, MOST_SHOWN), ...more, `its folder is kept: ${outcome.folder}`].map((text) => `    ${text}`).join('\n');
}

function numbers(o: Outcome): number[] {
  return [o.kills, o.missed, o.acknowledged, o.carriedOut, o.converged, o.unconfirmed, o.uplinks, o.lost.length, o.doubled.length, o.wrong.length];
}
