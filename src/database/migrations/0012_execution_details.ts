import type { Knex } from 'knex';

/** Renames three detail codes of executions (see "Renamed" of 0.3.0 in CHANGELOG.md). */
export const name = '0012_execution_details';

const RENAMED = [
  ['delivery_unknown', 'delivery_unconfirmed'],
  ['l4_mismatch', 'verification_mismatch'],
  ['l4_timeout', 'verification_timeout'],
  ['target_removed', 'device_removed'],
] as const;

export async function up(knex: Knex): Promise<void> {
  for (const [before, after] of RENAMED) await knex('executions').where({ detail: before }).update({ detail: after });
}

export async function down(knex: Knex): Promise<void> {
  for (const [before, after] of RENAMED) await knex('executions').where({ detail: after }).update({ detail: before });
}
