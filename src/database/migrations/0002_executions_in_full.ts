import type { Knex } from 'knex';

/** Query commands, sensor evidence, and what is measured of the intervals of uplinks. */
export const name = '0002_executions_in_full';

const EXECUTION_COLUMNS = ['query', 't_query', 'queries_sent', 'delivered_arrival', 'peer_delivered_at', 'peer_delivered_by'];

/** As in 0001: times are bigint Unix milliseconds, JSON is text. */
export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('executions', (t) => {
    t.text('query'); // JSON: the query command as it was frozen with its parent; null: none
    t.bigInteger('t_query'); // when the query is asked a second time
    t.integer('queries_sent').notNullable().defaultTo(0);
    t.double('delivered_arrival'); // the stamp of the arrival of the sign of delivery: whole milliseconds are too coarse to tell what came first
    t.bigInteger('peer_delivered_at'); // the delivery on the clock of the other side; null: it told no time
    t.text('peer_delivered_by'); // whose clock that is
  });
  // Only what comes in a later millisecond is surely later.
  await knex.raw('update executions set delivered_arrival = delivered_at + 1 where delivered_at is not null and final = 0');
  await knex.schema.alterTable('physical_devices', (t) => {
    t.text('last_uplink'); // JSON: the times of the last uplink that counted for the gaps
    t.text('uplink_gaps').notNullable().defaultTo('[]'); // JSON array: milliseconds between the last uplinks
  });
  // What each sensor showed last: an execution is verified against it.
  await knex.schema.createTable('latest_readings', (t) => {
    t.text('sensor_id').primary().references('id').inTable('sensors').onDelete('CASCADE');
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('physical_device_id').notNullable(); // which showed it
    t.text('source_path').notNullable(); // by which it came
    t.text('value').notNullable(); // JSON, of the value type of the sensor's template
    t.bigInteger('own_time'); // its time on the clock of the other side; null: it came without one
    t.text('clock'); // whose clock that is
    t.double('received_at').notNullable(); // the stamp of its arrival: milliseconds, with a fraction that only orders
  });
}

/** Drops all of it. */
export async function down(knex: Knex): Promise<void> {
  await knex.schema.dropTable('latest_readings');
  for (const column of ['last_uplink', 'uplink_gaps']) await knex.raw(`alter table physical_devices drop column ${column}`);
  for (const column of EXECUTION_COLUMNS) await knex.raw(`alter table executions drop column ${column}`);
}
