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
  readonly missing: readonly { ref: string; name: string; keyNames: string[]; commandName: string; reason: string }[];
  readonly created: boolean;
}

/** What every import reports of a document with a deleted device. */
const DELETED = { ref: '', name: 'deleted device', keyNames: [], commandName: '', reason: 'not_found' };

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
            { deviceVariable: 'boiler', keyName: 'humidity' },
            { sensorId: gone.sensorIds[0], label: 'Was here' },
          ],
        },
        { id: 'stop', kind: 'command', options: { deviceId: pump.id, commandName: 'Stop' } },
        { id: 'hand', kind: 'command', options: { deviceVariable: 'boiler', commandName: 'Open' } },
        { id: 'status', kind: 'connections', options: { connectionNames: ['Gateway'] } },
        { id: 'log', kind: 'executions', options: { deviceId: gone.id } },
      ],
      layout: [
        { widgetId: 'stop', column: 12, row: 0, width: 6, height: 2 },
        { widgetId: 'chart', column: 0, row: 0, width: 12, height: 6 },
      ],
      lastSeconds: 900,
    };
    await source.createCommand(pump.id, 'Stop');
    await source.createCommand(boiler1.id, 'Open');
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
      { name: 'Boiler 1', clientDeviceId: 'b-1', keyNames: ['humidity', 'temperature'] },
      { name: 'Boiler 2', clientDeviceId: 'b-2', keyNames: ['temperature'] },
      { name: 'Attic', clientDeviceId: '', keyNames: ['humidity'] },
    ]);
    const [stop, chart] = document.content.widgets;
    expect([stop?.id, chart?.id]).toEqual(['1', '2']);
    expect(document.content.layout.map(({ widgetId }) => widgetId)).toEqual(['1', '2', '3', '4', '5']);
    // The executions of a deleted device are not those of the organization.
    expect(document.content.widgets.at(-1)?.options).toEqual({ missingDevice: 'deleted device' });
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
    expect(missing).toEqual([DELETED]);
    const again = (await source.send('GET', `/api/v2/dashboards/${dashboard?.id}:export`)).json;
    expect(again).toEqual({ ...document, name: 'Heating 2' });
  });

  test('are imported into another organization with half of the devices missing', async () => {
    const target = await fixture.organization(`Target ${engine.name}`);
    const connectionId = await target.createConnection('Other gateway');
    const renamed = await target.createDevice('Kessel', KEYS, { clientDeviceId: 'b-1', connectionId });
    const attic = await target.createDevice('ATTIC', ['temperature']);
    await target.createCommand(renamed.id, 'OPEN');
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
      { name: 'deleted device', keyNames: [], reason: 'not_found' },
      { name: 'Attic', keyNames: ['humidity'], reason: 'sensor_not_found' },
      { name: 'Gateway', keyNames: [], reason: 'connection_not_found' },
    ]);
    expect(dryRun.created).toBe(false);
    const list = await target.call<{ dashboards: unknown[] }>(`${DASHBOARDS}/ListDashboards`, {});
    expect(list.dashboards).toEqual([]);

    const { dashboard, ...report } = await target.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, { document });
    expect({ ...report }).toEqual({ devices: dryRun.devices, missing: dryRun.missing, created: true });
    const chart = dashboard?.content.widgets.find(({ kind }) => kind === 'time_series');
    expect(chart?.series).toMatchObject([
      { deviceId: renamed.id, keyName: 'temperature', label: 'One' },
      { missingDevice: 'Boiler 2', keyName: 'temperature' },
      { missingDevice: 'Pump', keyName: 'humidity' },
      { deviceId: attic.id, keyName: 'humidity' },
      { deviceVariable: 'boiler', keyName: 'temperature' },
      { deviceVariable: 'boiler', keyName: 'humidity' },
      { missingDevice: 'deleted device', keyName: 'unknown' },
    ]);
    expect(dashboard?.content.variables).toMatchObject([{ name: 'boiler', value: renamed.id }]);
    const options = dashboard?.content.widgets.map((widget) => widget.options);
    expect(options).toContainEqual({ commandName: 'Stop', missingDevice: 'Pump' });
    expect(options).toContainEqual({ missingDevice: 'deleted device' });
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
    const refByName = new Map(document.devices.map(({ name, ref }) => [name, ref]));
    const withoutCommand = (name: string, commandName: string) => ({
      ref: refByName.get(name),
      name,
      keyNames: [],
      commandName,
      reason: 'command_not_found',
    });
    expect(result).toMatchObject({
      devices,
      missing: [
        DELETED,
        withoutCommand('Pump', 'Stop'),
        withoutCommand('Boiler 1', 'Open'),
        { name: 'Gateway', reason: 'connection_not_found' },
      ],
    });
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

  test('are bound to devices and sensors that were missing at an earlier import, and exist now', async () => {
    const target = await fixture.organization(`Later ${engine.name}`);
    const first = await target.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, { document });
    const exported = (await target.send('GET', `/api/v2/dashboards/${first.dashboard?.id}:export`)).json;
    expect(exported['devices']).toEqual([]);
    const pump = await target.createDevice('PUMP', ['humidity', 'humidity']);
    const boiler = await target.createDevice('Boiler 2', ['humidity']);
    const second = await target.call<ImportJson>(`${DASHBOARDS}/ImportDashboard`, {
      document: exported,
      name: 'Later',
    });
    expect(second.missing.map(({ ref, name, keyNames, reason }) => [ref, name, keyNames, reason])).toEqual([
      ['', 'Boiler 1', [], 'not_found'],
      ['', 'Attic', [], 'not_found'],
      ['', 'deleted device', [], 'not_found'],
      ['', 'Pump', ['humidity'], 'ambiguous'],
      ['', 'Boiler 2', ['temperature'], 'sensor_not_found'],
      ['', 'Pump', [], 'command_not_found'],
      ['', 'Gateway', [], 'connection_not_found'],
    ]);
    const widgets = second.dashboard?.content.widgets ?? [];
    expect(widgets.find(({ kind }) => kind === 'time_series')?.series).toMatchObject([
      { missingDevice: 'Boiler 1' },
      { deviceId: boiler.id, keyName: 'temperature' },
      { deviceId: pump.id, keyName: 'humidity' },
      { missingDevice: 'Attic' },
      { deviceVariable: 'boiler' },
      { deviceVariable: 'boiler' },
      { missingDevice: 'deleted device' },
    ]);
    expect(widgets.map(({ options }) => options)).toContainEqual({ commandName: 'Stop', deviceId: pump.id });
  });

  test.each<[string, (valid: DocumentJson) => JsonObject, RegExp]>([
    [
      'a widget that has no row left',
      (valid) => ({
        ...valid,
        content: {
          widgets: [{ id: '1', kind: 'clock' }, { kind: 'clock' }],
          layout: [{ widgetId: '1', column: 0, row: 999, width: 2, height: 1 }],
        },
      }),
      /document\.content\.layout: has no row left for a new widget below the others/,
    ],
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
