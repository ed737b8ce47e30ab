import type { Knex } from 'knex';
import type { Dialect } from '../engines/dialect';

/** Secrets of connections, devices that nobody has adopted yet, and readings with their hours. */
export const name = '0003_transports_and_telemetry';

/** As in 0001: times are bigint Unix milliseconds, booleans 0 or 1, JSON is text. */
export async function up(knex: Knex, dialect: Dialect): Promise<void> {
  await knex.schema.alterTable('connections', (t) => {
    t.text('secrets').notNullable().defaultTo(''); // the secret fields of the configuration as encrypted JSON; empty: none
  });
  await knex.schema.alterTable('organizations', (t) => {
    t.integer('reading_retention_days').notNullable().defaultTo(365);
    t.integer('thin_readings_after_days'); // null: never
  });
  await devices(knex);
  await executions(knex);
  await uplinks(knex);
  await readings(knex, dialect);
}

/** Drops all of it. */
export async function down(knex: Knex): Promise<void> {
  for (const table of ['stale_hours', 'reading_hours', 'readings', 'reading_series', 'refused_values', 'discovered_devices']) await knex.schema.dropTable(table);
  await knex.raw('drop index digital_devices_seen');
  for (const [table, column] of COLUMNS) await knex.raw(`alter table ${table} drop column ${column}`);
}

const COLUMNS = [
  ['connections', 'secrets'],
  ['organizations', 'reading_retention_days'],
  ['organizations', 'thin_readings_after_days'],
  ['physical_devices', 'reported_class'],
  ['digital_devices', 'seen_hour'],
  ['latest_readings', 'buffered'],
  ['latest_readings', 'f_cnt'],
  ['executions', 'delivered_f_cnt'],
  ['uplinks_seen', 'digest'],
] as const;

async function devices(knex: Knex): Promise<void> {
  await knex.schema.alterTable('physical_devices', (t) => {
    t.text('reported_class'); // LoRaWAN: the class of the last uplink that told it: A, B or C
  });
  // The hours since 1970 until it was last seen, or created as long as it was never seen: an index that changes once an hour at most. Where
  // an indexed column changes, PostgreSQL writes all indexes of the row anew, that of the names as well.
  await knex.schema.alterTable('digital_devices', (t) => {
    t.bigInteger('seen_hour').notNullable().defaultTo(0);
  });
  await knex.raw('update digital_devices set seen_hour = coalesce(last_seen_at, created_at) / 3600000');
  await knex.schema.alterTable('digital_devices', (t) => {
    t.index(['organization_id', 'seen_hour', 'created_at', 'id'], 'digital_devices_seen'); // all that a list needs to count and to sort
  });
  // Physical devices that sent something and are bound to none. No reference to the connection, as for connector_keys.
  await knex.schema.createTable('discovered_devices', (t) => {
    t.text('connection_id').notNullable();
    t.text('client_device_id').notNullable();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.bigInteger('first_seen').notNullable();
    t.bigInteger('last_seen').notNullable();
    t.bigInteger('uplinks').notNullable();
    t.text('last_payload').notNullable(); // JSON text, cut where it is long
    t.primary(['connection_id', 'client_device_id']);
    t.index(['organization_id', 'connection_id', 'first_seen', 'client_device_id'], 'discovered_devices_page');
    t.index(['organization_id', 'connection_id', 'last_seen', 'client_device_id'], 'discovered_devices_seen');
  });
}

async function executions(knex: Knex): Promise<void> {
  await knex.schema.alterTable('executions', (t) => {
    t.bigInteger('delivered_f_cnt'); // LoRaWAN: the frame counter of the uplink that opened the receive window of the delivery
  });
  await knex.schema.alterTable('latest_readings', (t) => {
    t.smallint('buffered').notNullable().defaultTo(0); // it waited at a broker while the server was away: it proves nothing about a command
    t.bigInteger('f_cnt'); // LoRaWAN: the frame counter of its uplink
  });
}

async function uplinks(knex: Knex): Promise<void> {
  await knex.schema.alterTable('uplinks_seen', (t) => {
    t.text('digest'); // of what came last in a delivery slot of a transport whose messages have no ids of their own
  });
  // Values that could not be converted to the type of their sensor.
  await knex.schema.createTable('refused_values', (t) => {
    t.text('sensor_id').primary().references('id').inTable('sensors').onDelete('CASCADE');
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.bigInteger('refused').notNullable();
    t.bigInteger('last_at').notNullable();
    t.text('last_value').notNullable(); // JSON text, cut where it is long
    t.text('source_path').notNullable();
  });
}

async function readings(knex: Knex, dialect: Dialect): Promise<void> {
  // A short number for each sensor that ever showed anything. No reference to the sensor: its readings are removed in small steps after it.
  await knex.schema.createTable('reading_series', (t) => {
    t.bigIncrements('number');
    t.text('sensor_id').notNullable().unique({ indexName: 'reading_series_sensor' });
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.bigInteger('summed_until').notNullable().defaultTo(0); // all hours before it are in reading_hours, but those in stale_hours
    t.bigInteger('thinned_until').notNullable().defaultTo(0); // of the hours before it single numbers may be gone: their sums cannot be made again
    t.index(['organization_id'], 'reading_series_organization');
  });
  // kind: 1 number, 2 integer, 3 boolean (num holds it, a boolean as 0 or 1), 4 string (txt), 5 json (txt holds it as JSON text).
  // position: the order in which they were stored, Unix milliseconds times 1024.
  await knex.raw(`
    create table readings (
      series bigint not null, time bigint not null, position bigint not null, kind smallint not null, num double precision, txt text,
      primary key (series, time, position))${dialect.clustered}`);
  // Nearly all are stored within a minute of their time, so what was stored after a position is found by the time; this index holds the others.
  // One of all readings would cost as much as the table itself with each of them.
  await knex.raw('create index readings_late on readings (series, position) where abs(position - time * 1024) > 61440000');
  // An hour of a series of numbers. area: the sum over neighbouring samples within the hour of value times milliseconds to the next one.
  // position: all readings of the hour up to it are in its sums.
  await knex.raw(`
    create table reading_hours (
      series bigint not null, hour bigint not null, count bigint not null, sum double precision not null, min double precision not null, max double precision not null,
      first_time bigint not null, first double precision not null, last_time bigint not null, last double precision not null, area double precision not null, position bigint not null default 0,
      primary key (series, hour))${dialect.clustered}`);
  // Hours that got another reading after they were summed up.
  await knex.raw(`create table stale_hours (series bigint not null, hour bigint not null, primary key (series, hour))${dialect.clustered}`);
}
