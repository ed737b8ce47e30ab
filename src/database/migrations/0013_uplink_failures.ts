import type { Knex } from 'knex';

/** What was wrong with the last uplinks of a device. Nothing is stored for uplinks that can be read. */
export const name = '0013_uplink_failures';

const COLUMNS = [
  ['physical_devices', 'uplink_failure'],
  ['physical_devices', 'decoder_warnings'],
  ['discovered_devices', 'uplink_failure'],
] as const;

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('physical_devices', (t) => {
    t.text('uplink_failure'); // JSON of UplinkFailureRecord: the last uplink that could not be read or decoded
    t.text('decoder_warnings'); // JSON of DecoderWarnings: the last warnings of the decoder
  });
  await knex.schema.alterTable('discovered_devices', (t) => {
    t.text('uplink_failure'); // why the last payload could not be read, null: it could
  });
}

export async function down(knex: Knex): Promise<void> {
  for (const [table, column] of COLUMNS) await knex.raw(`alter table ${table} drop column ${column}`);
}
