import type { Knex } from 'knex';
import type { Dialect } from '../engines/dialect';

/** Organizations, users, keys, templates, connections, devices, commands, executions, and what uplinks leave. */
export const name = '0001_first_light';

/** Times are bigint Unix milliseconds, booleans 0 or 1, JSON is text; ids are made by the program. */
export async function up(knex: Knex, dialect: Dialect): Promise<void> {
  await people(knex);
  await templates(knex);
  await connections(knex);
  await devices(knex, dialect);
  await commands(knex);
  await executions(knex);
  await executionIndexes(knex);
  await executionEvents(knex);
  await uplinks(knex);
}

/** Drops all of it. */
export async function down(knex: Knex, dialect: Dialect): Promise<void> {
  await dialect.dropNameSearch(knex);
  const tables = ['uplinks_seen', 'connector_keys', 'execution_events', 'executions', 'command_sensors', 'commands', 'sensor_mappings', 'sensors', 'physical_devices', 'digital_devices', 'connections', 'sensor_templates', 'normalized_keys', 'api_keys', 'organization_counters', 'users', 'organizations', 'settings'];
  for (const table of tables) await knex.schema.dropTable(table);
}

function times(t: Knex.CreateTableBuilder): void {
  t.bigInteger('created_at').notNullable();
  t.bigInteger('updated_at').notNullable();
}

async function people(knex: Knex): Promise<void> {
  // What the installation itself keeps, for example the secret that signs page tokens.
  await knex.schema.createTable('settings', (t) => {
    t.text('name').primary();
    t.text('value').notNullable();
  });
  await knex.schema.createTable('organizations', (t) => {
    t.text('id').primary();
    t.text('name').notNullable();
    t.text('name_folded').notNullable().unique({ indexName: 'organizations_name' });
    times(t);
  });
  await knex.schema.createTable('users', (t) => {
    t.text('id').primary();
    t.text('name').notNullable();
    t.text('email').notNullable();
    times(t);
  });
  // Exact totals and gap-free sequences: `devices`, `execution_events`.
  await knex.schema.createTable('organization_counters', (t) => {
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('name').notNullable();
    t.bigInteger('value').notNullable();
    t.primary(['organization_id', 'name']);
  });
  await knex.schema.createTable('api_keys', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('owner_user_id').notNullable().references('id').inTable('users');
    t.text('name').notNullable();
    t.text('prefix').notNullable();
    t.text('hash').notNullable().unique({ indexName: 'api_keys_hash' }); // SHA-256 of the whole key, hex
    t.text('scopes').notNullable(); // JSON array
    t.text('connection_ids').notNullable(); // JSON array
    t.smallint('all_connections').notNullable();
    t.smallint('is_admin').notNullable();
    t.bigInteger('expires_at');
    t.bigInteger('revoked_at');
    t.bigInteger('last_used_at');
    t.text('last_used_address');
    times(t);
    t.index(['organization_id', 'created_at', 'id'], 'api_keys_page');
  });
}

async function templates(knex: Knex): Promise<void> {
  await knex.schema.createTable('normalized_keys', (t) => {
    t.text('id').primary();
    t.text('organization_id').references('id').inTable('organizations').onDelete('CASCADE'); // null: system
    t.text('owner').notNullable(); // the organization, or 'system': a unique index takes no nulls
    t.text('name').notNullable();
    t.text('name_folded').notNullable();
    times(t);
    t.unique(['owner', 'name_folded'], { indexName: 'normalized_keys_name' });
    t.index(['owner', 'created_at', 'id'], 'normalized_keys_page');
  });
  await knex.schema.createTable('sensor_templates', (t) => {
    t.text('id').primary();
    t.text('organization_id').references('id').inTable('organizations').onDelete('CASCADE'); // null: system
    t.text('owner').notNullable();
    t.text('key_name_id').notNullable().references('id').inTable('normalized_keys');
    t.text('sensor_type').notNullable();
    t.text('value_type').notNullable();
    t.text('unit_measurement_id').notNullable(); // empty: none
    t.text('description').notNullable();
    times(t);
    t.index(['owner', 'created_at', 'id'], 'sensor_templates_page');
    t.index(['key_name_id'], 'sensor_templates_key');
  });
}

async function connections(knex: Knex): Promise<void> {
  await knex.schema.createTable('connections', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('connector_id').notNullable();
    t.text('name').notNullable();
    t.text('name_folded').notNullable();
    t.text('description').notNullable();
    t.smallint('enabled').notNullable();
    t.text('configuration').notNullable(); // JSON object
    t.text('policy').notNullable(); // JSON object
    t.integer('revision').notNullable();
    times(t);
    t.unique(['organization_id', 'name_folded'], { indexName: 'connections_name' });
    t.index(['organization_id', 'created_at', 'id'], 'connections_page');
  });
}

async function devices(knex: Knex, dialect: Dialect): Promise<void> {
  await knex.schema.createTable('digital_devices', (t) => {
    t.bigIncrements('seq'); // a row number that survives VACUUM: the name search refers to it
    t.text('id').notNullable().unique({ indexName: 'digital_devices_id' });
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('name').notNullable();
    t.text('name_folded').notNullable();
    t.bigInteger('last_seen_at');
    t.text('interval_unit'); // minute, hour, day, week, month
    t.integer('interval_value');
    t.integer('revision').notNullable();
    times(t);
    t.index(['organization_id', 'created_at', 'id'], 'digital_devices_page');
  });
  await dialect.createNameSearch(knex);
  await knex.schema.createTable('physical_devices', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('device_id').notNullable().unique({ indexName: 'physical_devices_device' }).references('id').inTable('digital_devices').onDelete('CASCADE');
    t.text('connection_id').notNullable().references('id').inTable('connections');
    t.text('client_device_id').notNullable();
    t.text('configuration').notNullable(); // JSON object
    times(t);
    t.unique(['connection_id', 'client_device_id'], { indexName: 'physical_devices_client' });
  });
  await knex.schema.createTable('sensors', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('device_id').notNullable().references('id').inTable('digital_devices').onDelete('CASCADE');
    t.text('sensor_template_id').notNullable().references('id').inTable('sensor_templates');
    t.integer('position').notNullable();
    times(t);
    t.index(['device_id', 'position'], 'sensors_device');
    t.index(['sensor_template_id'], 'sensors_template');
  });
  await knex.schema.createTable('sensor_mappings', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('device_id').notNullable().references('id').inTable('digital_devices').onDelete('CASCADE');
    t.text('sensor_id').notNullable().references('id').inTable('sensors').onDelete('CASCADE');
    t.text('source_path').notNullable();
    t.integer('position').notNullable();
    times(t);
    t.unique(['device_id', 'sensor_id'], { indexName: 'sensor_mappings_sensor' });
    t.unique(['device_id', 'source_path'], { indexName: 'sensor_mappings_path' });
    t.index(['sensor_id'], 'sensor_mappings_by_sensor');
  });
}

async function commands(knex: Knex): Promise<void> {
  await knex.schema.createTable('commands', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('device_id').notNullable().references('id').inTable('digital_devices').onDelete('CASCADE');
    t.text('name').notNullable();
    t.text('name_folded').notNullable();
    t.text('definition').notNullable(); // JSON: all of the definition but the name
    t.text('query_command_id').references('id').inTable('commands'); // also in the definition; here for the reference
    t.integer('revision').notNullable();
    times(t);
    t.unique(['device_id', 'name_folded'], { indexName: 'commands_name' });
    t.index(['device_id', 'created_at', 'id'], 'commands_page');
    t.index(['query_command_id'], 'commands_query');
  });
  // Which sensors a command expects a state of: they may not be removed or re-templated.
  await knex.schema.createTable('command_sensors', (t) => {
    t.text('command_id').notNullable().references('id').inTable('commands').onDelete('CASCADE');
    t.text('sensor_id').notNullable().references('id').inTable('sensors').onDelete('CASCADE');
    t.primary(['command_id', 'sensor_id']);
    t.index(['sensor_id'], 'command_sensors_sensor');
  });
}

async function executions(knex: Knex): Promise<void> {
  // No foreign keys to device or command: rows outlive them until retention.
  await knex.schema.createTable('executions', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('device_id').notNullable();
    t.text('physical_device_id'); // null when it was rejected before a route was known
    t.text('connection_id');
    t.text('client_device_id');
    t.text('connector_kind'); // gateway, mqtt, mqtt_answer, chirpstack, chirpstack_confirmed
    t.text('command_id'); // stays when the command is deleted
    t.text('command_name').notNullable();
    t.integer('command_revision').notNullable();
    t.text('parent_execution_id');
    t.text('trigger_id').notNullable();
    t.text('trigger_key'); // the caller's own trigger id while it is remembered
    t.text('trigger_hash'); // SHA-256 of the RFC 8785 form of the params that came with it, hex
    t.text('dedupe_key'); // command, revision and hash of the canonical params while not final
    t.text('params').notNullable(); // JSON object, defaults filled in
    t.text('params_hash').notNullable(); // SHA-256 of the RFC 8785 form, hex
    t.text('strategy').notNullable(); // no_verification, wait_next_uplink, query_after_ack
    t.text('expected').notNullable(); // JSON array of {sensorId, valueType, value}, frozen at submit
    t.integer('convergence_timeout'); // seconds
    t.text('payload_json'); // the rendered JSON, or
    t.binary('payload_bytes'); // the encoder's bytes
    t.integer('f_port');
    t.smallint('confirmed').notNullable();
    t.text('topic').notNullable(); // empty: none
    t.text('policy').notNullable(); // JSON: the times of its connection, frozen at submit
    t.text('state').notNullable();
    t.smallint('final').notNullable();
    t.integer('version').notNullable(); // compare-and-set
    t.text('rejection_reason');
    t.text('violations'); // JSON array
    t.text('detail').notNullable(); // empty: nothing to add
    t.text('detail_message').notNullable();
    t.text('evidence');
    t.integer('attempts').notNullable();
    t.smallint('holds_slot').notNullable();
    t.bigInteger('queue_order').notNullable(); // place in the device's queue; smaller goes first
    t.bigInteger('not_before'); // backoff after a proven failure to deliver
    t.text('sent_to'); // the gateway_id of the attempt
    t.text('sent_boot'); // and its boot_id
    t.bigInteger('t_delivery');
    t.bigInteger('t_ack');
    t.bigInteger('t_conv');
    t.bigInteger('next_deadline'); // the earliest armed timer; null when final, unless it keeps the slot
    t.bigInteger('enqueued_at').notNullable();
    t.bigInteger('dispatched_at');
    t.bigInteger('delivered_at');
    t.bigInteger('finished_at');
    t.bigInteger('updated_at').notNullable();
    t.integer('event_count').notNullable();
    t.index(['organization_id', 'device_id', 'updated_at', 'id'], 'executions_page');
    t.index(['parent_execution_id'], 'executions_parent');
    t.index(['finished_at'], 'executions_retention');
  });
}

async function executionIndexes(knex: Knex): Promise<void> {
  await knex.raw("create index executions_queue on executions (connection_id, physical_device_id, queue_order) where state = 'enqueued'");
  await knex.raw('create index executions_open_device on executions (organization_id, device_id) where final = 0');
  await knex.raw('create index executions_open_connection on executions (connection_id, state) where final = 0');
  await knex.raw('create index executions_deadline on executions (next_deadline) where next_deadline is not null');
  await knex.raw('create unique index executions_dedupe on executions (device_id, dedupe_key) where dedupe_key is not null');
  await knex.raw('create unique index executions_trigger on executions (device_id, command_id, trigger_key) where trigger_key is not null');
  await knex.raw('create unique index executions_slot on executions (physical_device_id) where holds_slot = 1');
}

async function executionEvents(knex: Knex): Promise<void> {
  await knex.schema.createTable('execution_events', (t) => {
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.bigInteger('position').notNullable(); // counts the organization's events without gaps, in commit order: the resume token
    t.text('execution_id').notNullable().references('id').inTable('executions').onDelete('CASCADE');
    t.text('device_id').notNullable();
    t.integer('sequence').notNullable(); // counts the execution's events from 1
    t.bigInteger('time').notNullable();
    t.smallint('layer').notNullable();
    t.text('event').notNullable();
    t.text('from_state');
    t.text('to_state').notNullable();
    t.text('source').notNullable();
    t.text('data').notNullable(); // JSON object
    t.primary(['organization_id', 'position']);
    t.unique(['execution_id', 'sequence'], { indexName: 'execution_events_log' });
  });
}

async function uplinks(knex: Knex): Promise<void> {
  // Neither refers to its connection: deleting one with a million rows would stop everybody. The sweep removes what is left.
  await knex.schema.createTable('connector_keys', (t) => {
    t.text('connection_id').notNullable();
    t.text('client_device_id').notNullable();
    t.text('name').notNullable(); // the path
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('value').notNullable(); // JSON
    t.bigInteger('sampled_at').notNullable();
    t.bigInteger('seen_at').notNullable();
    t.primary(['connection_id', 'client_device_id', 'name']);
  });
  await knex.schema.createTable('uplinks_seen', (t) => {
    t.text('connection_id').notNullable();
    t.text('uplink_id').notNullable();
    t.bigInteger('seen_at').notNullable();
    t.primary(['connection_id', 'uplink_id']);
    t.index(['seen_at'], 'uplinks_seen_age');
  });
}
