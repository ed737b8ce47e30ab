import Table from 'cli-table3';
import { TABLE_WITHOUT_LINES } from '../crash/table';
import type { Outcome } from './outcome';

/** Formats the outcomes as a table with totals. */
export function formatProofTable(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map(toNumbers);
  const sums = rows.reduce((sum, row) => sum.map((value, at) => value + (row[at] ?? 0)));
  const table = new Table({
    head: [
      '',
      'points',
      'server kills',
      'gateway kills',
      'commands',
      'repeated',
      'delivered',
      'converged',
      'unconfirmed',
      'uplinks',
      'lost',
      'doubled',
      'wrong',
      'seconds',
    ],
    colAligns: ['left', 'right', ...sums.map(() => 'right' as const)],
    style: { head: [], border: [], compact: true },
    chars: TABLE_WITHOUT_LINES,
  });
  table.push(...outcomes.map((outcome) => [outcome.name, formatPoints(outcome), ...toNumbers(outcome)]), [
    'all',
    '',
    ...sums,
  ]);
  return table.toString();
}

/** Names the points where nothing was killed, in a row with enough kills for all points: they are not proven. */
export function formatUnreachedPoints({ name, points }: Outcome): string[] {
  if (!points || points.missing.length === 0 || points.kills < points.reached + points.missing.length) return [];
  return [`NOT REACHED, ${name}: nothing was killed at ${points.missing.join(', ')}`];
}

function formatPoints({ points }: Outcome): string {
  return points ? `${points.reached}/${points.reached + points.missing.length}` : '';
}

function toNumbers(outcome: Outcome): number[] {
  return [
    outcome.serverKills,
    outcome.gatewayKills,
    outcome.acknowledged,
    outcome.repeatedCalls,
    outcome.delivered,
    outcome.converged,
    outcome.unconfirmed,
    outcome.uplinks,
    outcome.lost.length,
    outcome.doubled.length,
    outcome.wrong.length,
    Math.round(outcome.seconds),
  ];
}
