import { newId } from '../../src/kernel/ids';
import { splitIntoBatches } from '../../src/kernel/splitIntoBatches';
import type { JsonObject } from '../support/http';
import { engines } from '../support/engines';
import { DASHBOARDS, DashboardFixture, type DashboardJson } from './dashboardFixture';

interface StartersJson {
  readonly created: readonly DashboardJson[];
  readonly existing: readonly DashboardJson[];
  readonly remainingCount: number;
}

const createNames = (count: number): string[] => Array.from({ length: count }, (_, index) => `copy ${index}`);

/** Returns the kind, the title and the number of series of each widget. */
function describeWidgets({ content }: DashboardJson): unknown {
  return content.widgets.map(({ kind, title, series }) => [kind, title, series.length]);
}

describe.each(engines())('starter dashboards on $name', (engine) => {
  let fixture: DashboardFixture;
  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
  });
  afterAll(async () => await fixture.stop());

  /** Makes a device one of a model that exists only in the database. */
  async function setModel(id: string, deviceIds: readonly string[]): Promise<void> {
    const { knex } = fixture.server.database.database.db;
    const times = { created_at: 0, updated_at: 0, hash: '' };
    const names = ['brand_name', 'brand_folded', 'model_name', 'model_folded', 'search_folded', 'description'];
    await knex('device_models').insert({
      ...Object.fromEntries(names.map((name) => [name, name.startsWith('brand') ? 'Quellwerk' : 'QW-10'])),
      ...times,
      id,
      source: 's',
      brand_id: id,
      model_id: id,
    });
    const flags = ['device_status_req_interval', 'uplink_interval', 'flush_queue_on_activate', 'supports_class_b'];
    const texts = ['firmware_version', 'region', 'payload_codec_runtime', 'mac_version', 'reg_params_revision'];
    await knex('device_profiles').insert({
      ...Object.fromEntries(texts.map((name) => [name, ''])),
      ...Object.fromEntries([...flags, 'supports_class_c', 'supports_otaa'].map((name) => [name, 0])),
      ...times,
      id: `${id}/1/EU868`,
      device_model_id: id,
      hardware_versions: '[]',
    });
    await knex('physical_devices')
      .whereIn('device_id', [...deviceIds])
      .update({ profile_id: `${id}/1/EU868` });
  }

  test('show what the site has, and are created once', async () => {
    const { owner } = fixture;
    const connectionId = await owner.createConnection('Hall 3');
    const devices = [];
    for (const number of [1, 2, 3])
      devices.push(
        await owner.createDevice(`Valve ${number}`, ['valve_position', 'temperature', 'rssi', 'online', 'location'], {
          clientDeviceId: `v-${number}`,
          connectionId,
        }),
      );
    await setModel(
      'Valve',
      devices.map(({ id }) => id),
    );
    await owner.createDevice('Unbound', ['temperature']);
    await owner.createDashboard({ name: 'site OVERVIEW' });

    const first = await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, {});
    expect(first.created.map(({ name }) => name)).toEqual([
      'Site overview 2',
      'Connection Hall 3',
      'Model Quellwerk QW-10',
    ]);
    expect(first.existing).toEqual([]);
    const [overview, connection, model] = await Promise.all(
      first.created.map(async ({ id }) => await owner.getDashboard(id)),
    );
    expect(describeWidgets(overview as DashboardJson)).toEqual([
      ['connections', 'Connections', 0],
      ['executions', 'Latest executions', 0],
      ['time_series', 'Temperature', 4],
      ['state_timeline', 'Online', 3],
      ['time_series', 'Valve position', 3],
      ['time_series', 'Rssi', 3],
    ]);
    expect(describeWidgets(connection as DashboardJson)).toEqual([
      ['connections', 'Status', 0],
      ['state_timeline', 'Online', 3],
      ['time_series', 'Temperature', 3],
      ['time_series', 'Valve position', 3],
      ['time_series', 'Rssi', 3],
    ]);
    expect(connection?.content.widgets[0]?.options).toEqual({ connectionNames: ['Hall 3'] });
    expect(describeWidgets(model as DashboardJson)).toEqual([
      ['latest', 'Latest values', 5],
      ['executions', 'Latest executions', 0],
      ['state_timeline', 'Online', 1],
      ['time_series', 'Temperature', 1],
      ['gauge', 'Valve position', 1],
      ['time_series', 'Rssi', 1],
    ]);
    expect(model?.content.variables).toMatchObject([
      { name: 'device', kind: 'device', keyNames: expect.arrayContaining(['temperature', 'valve_position']) },
    ]);
    expect(devices.map(({ id }) => id)).toContain(model?.content.variables[0]?.['value']);

    const second = await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, {});
    expect(second.created).toEqual([]);
    expect(second.existing.map(({ id }) => id)).toEqual(first.created.map(({ id }) => id));
  });

  test('show sensors in one chart only if they have the same key, type and unit', async () => {
    const owner = await fixture.organization(`Units ${engine.name}`);
    const { normalizedKeys } = await owner.call<{ normalizedKeys: { id: string; name: string }[] }>(
      '/sensor_template.v2.SensorTemplateService/ListNormalizedKeys',
      {},
    );
    const keyNameId = normalizedKeys.find(({ name }) => name === 'temperature')?.id;
    const createTemplate = async (valueType: string, unitMeasurementId?: string): Promise<string> => {
      const path = '/sensor_template.v2.SensorTemplateService/CreateSensorTemplate';
      return (await owner.call<{ id: string }>(path, { keyNameId, sensorType: 'x', valueType, unitMeasurementId })).id;
    };
    const [celsius, fahrenheit] = [await createTemplate('number', 'Cel'), await createTemplate('number', '[degF]')];
    const [alarm, details] = [await createTemplate('boolean'), await createTemplate('json')];
    const connectionId = await owner.createConnection('Hall');
    const bind = (clientDeviceId: string) => ({ clientDeviceId, connectionId });
    await owner.createDevice('Details', [details, details, details], bind('d-1'));
    const room = await owner.createDevice('Room', [details, celsius, celsius, fahrenheit, alarm], bind('r-1'));
    await setModel('Mixed', [room.id]);
    const { created } = await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, {});
    const [overview, , model] = await Promise.all(created.map(async ({ id }) => await owner.getDashboard(id)));
    expect(describeWidgets(overview as DashboardJson)).toEqual([
      ['connections', 'Connections', 0],
      ['executions', 'Latest executions', 0],
      ['time_series', 'Temperature', 2],
      ['time_series', 'Temperature', 1],
      ['state_timeline', 'Temperature', 1],
    ]);
    expect(describeWidgets(model as DashboardJson)).toEqual([
      ['latest', 'Latest values', 1],
      ['executions', 'Latest executions', 0],
      ['time_series', 'Temperature', 1],
    ]);
  });

  test('are created 100 at a time, as long as the organization has room', async () => {
    const owner = await fixture.organization(`Many ${engine.name}`);
    const { knex } = fixture.server.database.database.db;
    const copyRows = async (table: string, id: string, names: readonly string[]): Promise<void> => {
      const row = await knex(table).where({ id }).first<JsonObject>('*');
      const rows = names.map((name) => ({ ...row, id: newId(), name, name_folded: name }));
      for (const batch of splitIntoBatches(rows, 50)) await knex(table).insert(batch);
    };
    const start = async () => {
      const { created, existing, remainingCount } = await owner.call<StartersJson>(
        `${DASHBOARDS}/CreateStarterDashboards`,
        {},
      );
      return { created: created.length, existing: existing.length, remainingCount };
    };
    await copyRows('connections', await owner.createConnection('Hall'), createNames(102));
    expect(await start()).toEqual({ created: 100, existing: 0, remainingCount: 4 });
    const { id } = await owner.createDashboard();
    await copyRows('dashboards', id, createNames(1000 - 101 - 2));
    // There is room for two more.
    expect(await start()).toEqual({ created: 2, existing: 100, remainingCount: 2 });
    const failure = await owner.fail(`${DASHBOARDS}/CreateStarterDashboards`, {});
    expect(failure).toMatchObject({ code: 'too_many_dashboards', status: 409 });
    expect(failure.message).toContain('private dashboards of other members, which you cannot see, count too');
    await owner.call(`${DASHBOARDS}/DeleteDashboard`, { id });
    expect(await start()).toEqual({ created: 1, existing: 102, remainingCount: 1 });
  });

  test('are not created again after a user deleted them, unless that is requested', async () => {
    const owner = await fixture.organization(`Deleted ${engine.name}`);
    const { created } = await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, {});
    await owner.call(`${DASHBOARDS}/DeleteDashboard`, { id: created[0]?.id });
    expect(await owner.call(`${DASHBOARDS}/CreateStarterDashboards`, {})).toEqual({
      created: [],
      existing: [],
      remainingCount: 0,
    });
    await owner.createConnection('New');
    const later = await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, {});
    expect(later.created.map(({ name }) => name)).toEqual(['Connection New']);
    const again = await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, { again: true });
    expect(again.created.map(({ name }) => name)).toEqual(['Site overview']);
    expect(again.existing.map(({ name }) => name)).toEqual(['Connection New']);
  });

  test('are created once by concurrent calls', async () => {
    const owner = await fixture.organization(`Concurrent ${engine.name}`);
    await owner.createConnection('Hall');
    const results = await Promise.all(
      Array.from(
        { length: 6 },
        async () => await owner.call<StartersJson>(`${DASHBOARDS}/CreateStarterDashboards`, {}),
      ),
    );
    expect(results.flatMap(({ created }) => created.map(({ name }) => name)).toSorted()).toEqual([
      'Connection Hall',
      'Site overview',
    ]);
    const { dashboards } = await owner.call<{ dashboards: unknown[] }>(`${DASHBOARDS}/ListDashboards`, {});
    expect(dashboards).toHaveLength(2);
  });
});
