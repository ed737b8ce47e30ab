import type { Knex } from 'knex';

/** Who reported the time of a reading. */
export const name = '0014_time_sources';

const TABLES = ['readings', 'latest_readings'] as const;

export async function up(knex: Knex): Promise<void> {
  // 0 the server (the time of receipt), 1 the device, 2 its gateway, 3 its network server, null: not known.
  for (const table of TABLES) await knex.raw(`alter table ${table} add column time_source smallint`);
}

/** Drops the columns: nobody can tell any more which times are those of receipt. */
export async function down(knex: Knex): Promise<void> {
  for (const table of TABLES) await knex.raw(`alter table ${table} drop column time_source`);
}
