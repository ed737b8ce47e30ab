import Table from 'cli-table3';
import { PLAIN } from '../crash/table';
import type { Outcome } from './settle';

/** The proof as a table with its sums. */
export function proofTable(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map(numbers);
  const sums = rows.reduce((sum, row) => sum.map((value, at) => value + (row[at] ?? 0)));
  const table = new Table({
    head: ['', 'at places', 'server kills', 'gateway kills', 'commands', 'again', 'delivered', 'converged', 'unconfirmed', 'uplinks', 'lost', 'doubled', 'wrong', 'seconds'],
    colAligns: ['left', 'right', ...sums.map(() => 'right' as const)],
    style: { head: [], border: [], compact: true },
    chars: PLAIN,
  });
  table.push(...outcomes.map((o) => [o.name, placesOf(o), ...numbers(o)]), ['all', '', ...sums]);
  return table.toString();
}

/** The places where none was killed, in a row that kills often enough for all of them: those are not proven. */
export function unreached({ name, points }: Outcome): string[] {
  if (!points || points.missing.length === 0 || points.kills < points.reached + points.missing.length) return [];
  return [`NOT REACHED, ${name}: none was killed at ${points.missing.join(', ')}`];
}

function placesOf({ points }: Outcome): string {
  return points ? `${points.reached}/${points.reached + points.missing.length}` : '';
}

function numbers(o: Outcome): number[] {
  return [o.serverKills, o.gatewayKills, o.acknowledged, o.calledAgain, o.delivered, o.converged, o.unconfirmed, o.uplinks, o.lost.length, o.doubled.length, o.wrong.length, Math.round(o.seconds)];
}
