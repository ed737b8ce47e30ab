import Table from 'cli-table3';
import { PLAIN } from '../crash/table';
import type { Outcome } from './settle';

/** The proof as a table with its sums. */
export function proofTable(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map(numbers);
  const sums = rows.reduce((sum, row) => sum.map((value, at) => value + (row[at] ?? 0)));
  const table = new Table({
    head: ['', 'server kills', 'gateway kills', 'commands', 'called again', 'delivered', 'converged', 'unconfirmed', 'uplinks', 'lost', 'doubled', 'wrong', 'seconds'],
    colAligns: ['left', ...sums.map(() => 'right' as const)],
    style: { head: [], border: [], compact: true },
    chars: PLAIN,
  });
  table.push(...outcomes.map((o) => [o.name, ...numbers(o)]), ['all', ...sums]);
  return table.toString();
}

function numbers(o: Outcome): number[] {
  return [o.serverKills, o.gatewayKills, o.acknowledged, o.calledAgain, o.delivered, o.converged, o.unconfirmed, o.uplinks, o.lost.length, o.doubled.length, o.wrong.length, Math.round(o.seconds)];
}
