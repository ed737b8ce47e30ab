import type { Knex } from 'knex';

/** Pictures and where they are shown, and revisions of the records that had none. */
export const name = '0004_images_and_etags';

const REVISED = ['organizations', 'sensor_templates', 'normalized_keys'] as const;

/** As in 0001: times are bigint Unix milliseconds, booleans 0 or 1. */
export async function up(knex: Knex): Promise<void> {
  for (const table of REVISED) await knex.schema.alterTable(table, (t) => void t.integer('revision').notNullable().defaultTo(1));
  // The bytes are files in the data folder, named by their SHA-256.
  await knex.schema.createTable('media', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('sha256').notNullable();
    t.text('filename').notNullable(); // empty: none was given
    t.text('content_type').notNullable();
    t.integer('size_bytes').notNullable();
    t.integer('thumbnail_bytes').notNullable();
    t.integer('width').notNullable();
    t.integer('height').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('unused_since'); // null: a device shows it
    t.index(['organization_id', 'sha256'], 'media_content');
  });
  await knex.raw('create index media_unused on media (unused_since, id) where unused_since is not null');
  await knex.schema.createTable('device_images', (t) => {
    t.text('device_id').notNullable().references('id').inTable('digital_devices').onDelete('CASCADE');
    t.text('media_id').notNullable().references('id').inTable('media');
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.integer('is_cover').notNullable();
    t.integer('position').notNullable();
    t.integer('list_order').notNullable(); // among equal positions
    t.primary(['device_id', 'media_id']);
    t.index(['media_id'], 'device_images_media');
  });
}

/** Drops all of it; the files stay. */
export async function down(knex: Knex): Promise<void> {
  for (const table of ['device_images', 'media']) await knex.schema.dropTable(table);
  for (const table of REVISED) await knex.raw(`alter table ${table} drop column revision`);
}
