import type { Knex } from 'knex';

/** LoRaWAN: the session that a frame counter belongs to, and whether the network server decodes what a device sends. */
export const name = '0011_lorawan_sessions';

const COLUMNS = [
  ['physical_devices', 'network_decodes'],
  ['latest_readings', 'dev_addr'],
  ['executions', 'delivered_dev_addr'],
] as const;

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('physical_devices', (t) => {
    t.smallint('network_decodes'); // 1: its last payload came decoded, 0: as bytes, null: no payload came yet
  });
  await knex.schema.alterTable('latest_readings', (t) => {
    t.text('dev_addr'); // the device address of the session that f_cnt counts in
  });
  await knex.schema.alterTable('executions', (t) => {
    t.text('delivered_dev_addr'); // the same of delivered_f_cnt
  });
}

/** Drops the columns: counters of different sessions are compared again. */
export async function down(knex: Knex): Promise<void> {
  for (const [table, column] of COLUMNS) await knex.raw(`alter table ${table} drop column ${column}`);
}
