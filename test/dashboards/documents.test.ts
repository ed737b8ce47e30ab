import type { JsonObject } from '../support/http';
import { engines } from '../support/engines';
import { DASHBOARDS, DashboardFixture, WIDGETS, type DashboardJson, type DashboardUser } from './dashboardFixture';

interface DocumentJson {
  readonly format: string;
  readonly formatVersion: number;
  readonly name: string;
  readonly content: DashboardJson['content'];
  readonly devices: readonly { ref: string; name: string; clientDeviceId: string; keyNames: string[] }[];
}

interface ImportJson {
  readonly dashboard?: DashboardJson;
  readonly devices: Readonly<Record<string, string>>;
  readonly missing: readonly { ref: string; name: string; keyNames: string[]; reason: string }[];
}

const KEYS = ['temperature', 'humidity'];
const ANY_ID = /[0-9a-f]{8}-[0-9a-f]{4}-7/;

describe.each(engines())('exported dashboards on $name', (engine) => {
  let fixture: DashboardFixture;
  let document: DocumentJson;
  let source: DashboardUser;

  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
    source = fixture.owner;
    const connectionId = await source.createConnection('Gateway');
    const bind = (clientDeviceId: string): JsonObject => ({ clientDeviceId, connectionId });
    const devices = [
      await source.createDevice('Boiler 1', KEYS, bind('b-1')),
      await source.createDevice('Boiler 2', KEYS, bind('b-2')),
      await source.createDevice('Pump', KEYS),
      await source.createDevice('Attic', KEYS),
    ];
    const [boiler1, boiler2, pump, attic] = devices as [
      (typeof devices)[0],
      (typeof devices)[0],
      (typeof devices)[0],
      (typeof devices)[0],
    ];
    const gone = await source.createDevice('Gone', KEYS);
    const content = {
      variables: [{ name: 'boiler', label: 'Boiler', kind: 'device', keyNames: ['temperature'], value: boiler1.id }],
      widgets: [
        {
          id: 'chart',
          kind: 'time_series',
          title: 'Temperatures',
          options: { style: 'area' },
          series: [
            { sensorId: boiler1.sensorIds[0], label: 'One' },
            { sensorId: boiler2.sensorIds[0] },
            { deviceId: pump.id, keyName: 'humidity' },
            { deviceId: attic.id, keyName: 'humidity' },
            { deviceVariable: 'boiler', keyName: 'temperature' },
            { sensorId: gone.sensorIds[0], label: 'Was here' },
          ],
        },
        { id: 'stop', kind: 'command', options: { deviceId: pump.id, commandName: 'Stop' } },
      ],
      layout: [
        { widgetId: 'stop', column: 12, row: 0, width: 6, height: 2 },
        { widgetId: 'chart', column: 0, row: 0, width: 12, height: 6 },
      ],
      lastSeconds: 900,
    };
    const { id } = await source.createDashboard({ name: 'Heating', description: 'All of it', content });
    await source.call('/digitaldevice.v2.DigitalDeviceService/DeleteDigitalDevice', { id: gone.id });
    document = (await source.send('GET', `/api/v2/dashboards/${id}:export`)).json as unknown as DocumentJson;
  });
  afterAll(async () => await fixture.stop());

  test('contain no ids, and describe their devices', () => {
    expect(JSON.stringify(document)).not.toMatch(ANY_ID);
    expect(document).toMatchObject({
      format: 'plantroom.dashboard',
      formatVersion: 1,
      name: 'Heating',
      description: 'All of it',
    });
    expect(document.devices.map(({ name, clientDeviceId, keyNames }) => ({ name, clientDeviceId, keyNames }))).toEqual([
      { name: 'Pump', clientDeviceId: '', keyNames: ['humidity'] },
      { name: 'Boiler 1', clientDeviceId: 'b-1', keyNames: ['temperature'] },
      { name: 'Boiler 2', clientDeviceId: 'b-2', keyNames: ['temperature'] },
      { name: 'Attic', clientDeviceId: '', keyNames: ['humidity'] },
    ]);
    const [stop, chart] = document.content.widgets;
    expect([stop?.id, chart?.id]).toEqual(['1', '2']);
    expect(document.content.layout.map(({ widgetId }) => widgetId)).toEqual(['1', '2']);
    expect(chart?.series.at(-1)).toMatchObject({
      missingDevice: 'deleted device',
      keyName: 'unknown',
      label: 'Was here',
    });
  });

  test('are imported into the same organization as the same dashboard', async () => {
    const { dashboard, missing } = await source.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, {
      document,
      name: 'Heating 2',
    });
    expect(missing).toEqual([]);
    const again = (await source.send('GET', `/api/v2/dashboards/${dashboard?.id}:export`)).json;
    expect(again).toEqual({ ...document, name: 'Heating 2' });
  });

  test('are imported into another organization with half of the devices missing', async () => {
    const target = await fixture.organization(`Target ${engine.name}`);
    const connectionId = await target.createConnection('Other gateway');
    const renamed = await target.createDevice('Kessel', KEYS, { clientDeviceId: 'b-1', connectionId });
    const attic = await target.createDevice('ATTIC', ['temperature']);
    for (let copy = 0; copy < 2; copy += 1) await target.createDevice('Pump', KEYS);

    const dryRun = await target.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, { document, dryRun: true });
    const refByName = Object.fromEntries(document.devices.map(({ name, ref }) => [name, ref]));
    expect(dryRun.dashboard).toBeUndefined();
    expect(dryRun.devices).toEqual({
      [String(refByName['Boiler 1'])]: renamed.id,
      [String(refByName['Attic'])]: attic.id,
    });
    expect(dryRun.missing.map(({ name, keyNames, reason }) => ({ name, keyNames, reason }))).toEqual([
      { name: 'Pump', keyNames: [], reason: 'ambiguous' },
      { name: 'Boiler 2', keyNames: [], reason: 'not_found' },
      { name: 'Attic', keyNames: ['humidity'], reason: 'sensor_not_found' },
    ]);
    const list = await target.call<{ dashboards: unknown[] }>(`${DASHBOARDS}/ListDashboards`, {});
    expect(list.dashboards).toEqual([]);

    const { dashboard, ...report } = await target.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, { document });
    expect({ ...report }).toEqual({ devices: dryRun.devices, missing: dryRun.missing });
    const chart = dashboard?.content.widgets.find(({ kind }) => kind === 'time_series');
    expect(chart?.series).toMatchObject([
      { deviceId: renamed.id, keyName: 'temperature', label: 'One' },
      { missingDevice: 'Boiler 2', keyName: 'temperature' },
      { missingDevice: 'Pump', keyName: 'humidity' },
      { deviceId: attic.id, keyName: 'humidity' },
      { deviceVariable: 'boiler', keyName: 'temperature' },
      { missingDevice: 'deleted device', keyName: 'unknown' },
    ]);
    expect(dashboard?.content.variables).toMatchObject([{ name: 'boiler', value: renamed.id }]);
    expect(dashboard?.content.widgets.find(({ kind }) => kind === 'command')?.options).toEqual({ commandName: 'Stop' });
    expect(dashboard).toMatchObject({ ownerUserId: target.userId, visibility: 'organization', revision: 1 });

    // A missing device is bound by hand.
    const widget = { dashboardId: dashboard?.id, widgetId: chart?.id };
    const series = chart?.series.map((one) =>
      one['missingDevice'] === 'Boiler 2' ? { deviceId: renamed.id, keyName: 'temperature' } : one,
    );
    await target.call(`${WIDGETS}/UpdateWidget`, { ...widget, series });
  });

  test('bind devices to those of the map', async () => {
    const target = await fixture.organization(`Map ${engine.name}`);
    const boiler = await target.createDevice('Any name', KEYS);
    const devices = Object.fromEntries(document.devices.map(({ ref }) => [ref, boiler.id]));
    const result = await target.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, { document, devices });
    expect(result).toMatchObject({ devices, missing: [] });
    expect(
      await target.fail(`${DASHBOARDS}/ImportDashboard`, { document, devices: { ...devices, other: boiler.id } }),
    ).toMatchObject({ code: 'validation_failed' });
    const [first] = document.devices;
    expect(
      await target.fail(`${DASHBOARDS}/ImportDashboard`, { document, devices: { [String(first?.ref)]: 'nobody' } }),
    ).toMatchObject({ code: 'device_not_found', status: 404 });
    expect(await target.fail(`${DASHBOARDS}/ImportDashboard`, { document, dryRun: true })).toMatchObject({
      code: 'name_taken',
    });
  });

  test.each<[string, (valid: DocumentJson) => JsonObject, RegExp]>([
    ['another format', (valid) => ({ ...valid, format: 'grafana' }), /document\.format: must be plantroom\.dashboard/],
    ['a newer version', (valid) => ({ ...valid, formatVersion: 2 }), /document\.formatVersion: must be 1 \(got 2\)/],
    ['an unknown ref', (valid) => ({ ...valid, devices: [] }), /"device1" is not the ref of a device of the document/],
    [
      'the same ref twice',
      (valid) => ({ ...valid, devices: [...valid.devices, valid.devices[0]] }),
      /document\.devices: must have a different ref for each device/,
    ],
    [
      'sensor ids',
      (valid) => ({ ...valid, content: { widgets: [{ kind: 'latest', series: [{ sensorId: 'a' }] }] } }),
      /series\[0\]\.sensorId: must be empty in a document/,
    ],
  ])('are refused with %s', async (_name, change, expected) => {
    const failure = await source.fail(`${DASHBOARDS}/ImportDashboard`, { document: change(document), name: 'Refused' });
    expect(failure).toMatchObject({ code: 'validation_failed', status: 400 });
    expect(failure.message).toMatch(expected);
  });
});
