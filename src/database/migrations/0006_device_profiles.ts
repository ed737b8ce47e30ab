import type { Knex } from 'knex';
import type { Dialect } from '../engines/dialect';

/** LoRaWAN device profiles, which belong to the installation and not to an organization, and which of them a physical device has. */
export const name = '0006_device_profiles';

/** As in 0001: times are bigint Unix milliseconds, booleans 0 or 1, JSON is text. */
export async function up(knex: Knex, dialect: Dialect): Promise<void> {
  await knex.schema.createTable('device_models', (t) => {
    t.text('id').primary(); // <source>/<brand>/<model>
    t.text('source').notNullable();
    t.text('brand_id').notNullable();
    t.text('brand_name').notNullable();
    t.text('brand_folded').notNullable(); // of the name, as are the others
    t.text('model_id').notNullable();
    t.text('model_name').notNullable();
    t.text('model_folded').notNullable();
    t.text('search_folded').notNullable(); // ids and names of brand and model, a line each
    t.text('description').notNullable();
    t.text('hash').notNullable(); // of what was read of it
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.index(['source', 'brand_id'], 'device_models_brand');
  });
  await knex.raw(`create index device_models_page on device_models (${['brand_folded', 'model_folded', 'id'].map((column) => dialect.byBytes(column)).join(', ')})`);
  // All that a brand and a model may be called, folded: a model has a row for each pair.
  await knex.schema.createTable('device_model_spellings', (t) => {
    t.text('brand').notNullable();
    t.text('model').notNullable();
    t.text('device_model_id').notNullable().references('id').inTable('device_models').onDelete('CASCADE');
    t.integer('rank').notNullable(); // 0: both are ids, higher: less exact
    t.primary(['brand', 'model', 'device_model_id']);
    t.index(['model', 'device_model_id'], 'device_model_spellings_model');
    t.index(['device_model_id'], 'device_model_spellings_of');
  });
  await createCodecs(knex);
  await knex.schema.createTable('device_profiles', (t) => {
    t.text('id').primary(); // <brand>/<model>/<firmware>/<region>
    t.text('device_model_id').notNullable().references('id').inTable('device_models');
    t.text('firmware_version').notNullable();
    t.text('hardware_versions').notNullable(); // JSON array of texts
    t.text('region').notNullable();
    t.text('codec_id').references('id').inTable('device_codecs'); // null: it has none
    t.text('payload_codec_runtime').notNullable(); // NONE, JS or CAYENNE_LPP
    t.text('mac_version').notNullable();
    t.text('reg_params_revision').notNullable();
    t.integer('device_status_req_interval').notNullable(); // times a day
    t.integer('uplink_interval').notNullable(); // seconds
    t.integer('flush_queue_on_activate').notNullable();
    t.integer('supports_class_b').notNullable();
    t.integer('supports_class_c').notNullable();
    t.integer('supports_otaa').notNullable();
    t.text('hash').notNullable(); // of what was read of it, its model and its codec
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.index(['device_model_id', 'region'], 'device_profiles_model');
    t.index(['codec_id'], 'device_profiles_codec');
  });
  // Named in its configuration; here too, so that what is in use cannot be removed.
  await knex.raw('alter table physical_devices add column profile_id text references device_profiles (id)');
  await knex.raw('create index physical_devices_profile on physical_devices (profile_id) where profile_id is not null');
}

async function createCodecs(knex: Knex): Promise<void> {
  await knex.schema.createTable('device_codecs', (t) => {
    t.text('id').primary(); // <source>/<brand>/<name>
    t.text('source').notNullable();
    t.text('brand_id').notNullable();
    t.text('name').notNullable();
    t.integer('decodes_uplinks').notNullable(); // as scripts says, which is too long to be read for a list
    t.integer('encodes_downlinks').notNullable();
    t.text('scripts').notNullable(); // JSON: StoredScripts
    t.text('examples').notNullable(); // JSON array of CodecExamples
    t.text('hash').notNullable(); // of the scripts and the examples
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.index(['source', 'brand_id'], 'device_codecs_brand');
  });
}

/** Drops all of it; configurations keep the profile that they name. */
export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop index physical_devices_profile');
  await knex.raw('alter table physical_devices drop column profile_id');
  for (const table of ['device_profiles', 'device_codecs', 'device_model_spellings', 'device_models']) await knex.schema.dropTable(table);
}
