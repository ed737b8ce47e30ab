import Table from 'cli-table3';
import { NO_BORDERS } from '../../src/cli/output';
import type { Outcome } from './outcome';

/** Table style without lines. */
export const TABLE_WITHOUT_LINES = { ...NO_BORDERS, middle: '  ' };
const MAX_SHOWN = 10;

/** Formats the outcomes as a table with totals. */
export function formatProofTable(outcomes: readonly Outcome[]): string {
  const sums = outcomes.map(toNumbers).reduce((sum, row) => sum.map((value, at) => value + (row[at] ?? 0)));
  const table = new Table({
    head: [
      'kill -9 when',
      'kills',
      'missed',
      'acknowledged',
      'carried out',
      'converged',
      'unconfirmed',
      'uplinks',
      'lost',
      'doubled',
      'wrong',
    ],
    colAligns: ['left', ...sums.map(() => 'right' as const)],
    style: { head: [], border: [], compact: true },
    chars: TABLE_WITHOUT_LINES,
  });
  table.push(...outcomes.map((outcome) => [outcome.name, ...toNumbers(outcome)]), ['all', ...sums]);
  return table.toString();
}

/** Describes the findings of an outcome, at most 10. */
export function formatFindings(outcome: Pick<Outcome, 'lost' | 'doubled' | 'wrong' | 'errors' | 'folder'>): string {
  const all = [
    ...outcome.lost.map((text) => `LOST ${text}`),
    ...outcome.doubled.map((text) => `DOUBLED ${text}`),
    ...outcome.wrong.map((text) => `WRONG ${text}`),
    ...outcome.errors.map((text) => `ERROR LINE ${text.slice(0, 400)}`),
  ];
  const more = all.length > MAX_SHOWN ? [`and ${all.length - MAX_SHOWN} more`] : [];
  return [...all.slice(0, MAX_SHOWN), ...more, `the folder was kept: ${outcome.folder}`]
    .map((text) => `    ${text}`)
    .join('\n');
}

function toNumbers(outcome: Outcome): number[] {
  return [
    outcome.kills,
    outcome.missed,
    outcome.acknowledged,
    outcome.carriedOut,
    outcome.converged,
    outcome.unconfirmed,
    outcome.uplinks,
    outcome.lost.length,
    outcome.doubled.length,
    outcome.wrong.length,
  ];
}
