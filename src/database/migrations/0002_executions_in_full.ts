import type { Knex } from 'knex';

/** Query commands, sensor evidence, and what is measured of the intervals of uplinks. */
export const name = '0002_executions_in_full';

const EXECUTION_COLUMNS = ['query', 't_query', 'queries_sent', 'peer_delivered_at'];

/** As in 0001: times are bigint Unix milliseconds, JSON is text. */
export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('executions', (t) => {
    t.text('query'); // JSON: the query command as it was frozen with its parent; null: none
    t.bigInteger('t_query'); // when the query is asked a second time
    t.integer('queries_sent').notNullable().defaultTo(0);
    t.bigInteger('peer_delivered_at'); // the delivery on the clock of the other side; null: it told no time
  });
  await knex.schema.alterTable('physical_devices', (t) => {
    t.text('recent_uplinks').notNullable().defaultTo('[]'); // JSON array: when the last uplinks were received
  });
  // What each sensor showed last: an execution is verified against it.
  await knex.schema.createTable('latest_readings', (t) => {
    t.text('sensor_id').primary().references('id').inTable('sensors').onDelete('CASCADE');
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('value').notNullable(); // JSON, of the value type of the sensor's template
    t.bigInteger('sampled_at').notNullable(); // the time of the sample, else when it was received
    t.bigInteger('own_time'); // its time on the clock of the other side; null: it came without one
    t.bigInteger('received_at').notNullable();
  });
}

/** Drops all of it. */
export async function down(knex: Knex): Promise<void> {
  await knex.schema.dropTable('latest_readings');
  await knex.raw('alter table physical_devices drop column recent_uplinks');
  for (const column of EXECUTION_COLUMNS) await knex.raw(`alter table executions drop column ${column}`);
}
