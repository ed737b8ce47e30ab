import type { Knex } from 'knex';

/** Dashboards, their widgets and revisions, and the sensors that widgets show. */
export const name = '0015_dashboards';

/** Times are bigint Unix milliseconds; lists and objects are JSON as text. */
export async function up(knex: Knex): Promise<void> {
  await createDashboards(knex);
  await createWidgets(knex);
  await knex.schema.createTable('dashboard_revisions', (t) => {
    t.text('organization_id').notNullable();
    t.text('dashboard_id').notNullable().references('id').inTable('dashboards').onDelete('CASCADE');
    t.integer('revision').notNullable();
    t.text('content').notNullable(); // JSON object: the whole content
    t.text('user_id').notNullable();
    t.text('message').notNullable();
    t.bigInteger('created_at').notNullable();
    t.primary(['dashboard_id', 'revision']);
  });
  // Outlives its dashboard: a starter dashboard that a user deleted is not created again.
  await knex.schema.createTable('starter_dashboards', (t) => {
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('starter_key').notNullable(); // overview, connection:<id>, model:<id>
    t.text('dashboard_id').notNullable();
    t.primary(['organization_id', 'starter_key']);
  });
}

async function createDashboards(knex: Knex): Promise<void> {
  await knex.schema.createTable('dashboards', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable().references('id').inTable('organizations').onDelete('CASCADE');
    t.text('name').notNullable();
    t.text('name_folded').notNullable();
    t.text('description').notNullable();
    t.text('owner_user_id').notNullable(); // empty: none
    t.text('visibility').notNullable(); // private, organization
    t.text('editor_role_ids').notNullable(); // JSON array
    t.text('layout').notNullable(); // JSON array of {widgetId, column, row, width, height}, in reading order
    t.text('variables').notNullable(); // JSON array
    t.integer('last_seconds'); // null: the default
    t.integer('revision').notNullable();
    t.text('updated_by_user_id').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.unique(['organization_id', 'name_folded'], { indexName: 'dashboards_name' });
  });
}

async function createWidgets(knex: Knex): Promise<void> {
  await knex.schema.createTable('widgets', (t) => {
    t.text('id').primary();
    t.text('organization_id').notNullable();
    t.text('dashboard_id').notNullable().references('id').inTable('dashboards').onDelete('CASCADE');
    t.text('kind').notNullable(); // also kinds that this version does not know
    t.text('title').notNullable();
    t.text('options').notNullable(); // JSON object
    t.text('series').notNullable(); // JSON array
    t.integer('revision').notNullable(); // the revision of the dashboard in which the widget last changed
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.index(['dashboard_id'], 'widgets_dashboard');
  });
  // Sensors and devices may be deleted while a widget refers to them, so there are no foreign keys to them.
  await knex.schema.createTable('widget_sensors', (t) => {
    t.text('organization_id').notNullable();
    t.text('dashboard_id').notNullable();
    t.text('widget_id').notNullable().references('id').inTable('widgets').onDelete('CASCADE');
    t.integer('position').notNullable();
    t.text('sensor_id'); // null: the sensor of device_id with key_name
    t.text('device_id'); // of the sensor, or the device itself; null: the sensor was already deleted
    t.text('key_name'); // null for a sensor_id, and for a device that is shown without a sensor
    t.primary(['widget_id', 'position']);
    t.index(['organization_id', 'sensor_id', 'dashboard_id'], 'widget_sensors_sensor');
    t.index(['organization_id', 'device_id', 'dashboard_id'], 'widget_sensors_device');
  });
}

/** Drops all dashboards. */
export async function down(knex: Knex): Promise<void> {
  for (const table of ['starter_dashboards', 'dashboard_revisions', 'widget_sensors', 'widgets', 'dashboards'])
    await knex.schema.dropTable(table);
}
