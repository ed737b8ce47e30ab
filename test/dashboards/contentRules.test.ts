import { Ajv2020 } from 'ajv/dist/2020';
import type { JsonObject } from '../support/http';
import { sqliteOnly } from '../support/engines';
import { DASHBOARDS, DashboardFixture, WIDGETS, type DashboardJson, type TestDevice } from './dashboardFixture';

const CLOCK = { kind: 'clock' };
const PLACE = { row: 0, width: 4, height: 2 };
/** Valid options of each kind. */
const OPTIONS: Readonly<Record<string, JsonObject>> = {
  time_series: { style: 'area', min: -10, max: 90.5, unit: '°C', showBand: true, lastSeconds: 3600 },
  latest: { unit: 'bar', decimals: 2, showAge: false, states: [{ value: true, label: 'open', color: 'warning' }] },
  gauge: { min: 0, max: 100, decimals: 0, thresholds: [{ value: 90, color: 'critical' }] },
  state_timeline: { states: [{ value: 'off' }, { value: 1, color: 'good' }], lastSeconds: 86_400 },
  table: { columns: ['device', 'value', 'time'], decimals: 1 },
  command: { commandName: 'Stop', params: { position: 40, list: [1, { deep: null }] }, confirmText: 'Really?' },
  executions: { states: ['converged', 'unconfirmed'], limit: 5 },
  connections: { connectionNames: ['Gateway'] },
  alarms: { limit: 20 },
  text: { text: '# Call **us**' },
  image: { imageNumber: 2, alternativeText: 'Plan of the hall', pins: [{ x: 12.5, y: 100 }] },
  clock: { timeZone: 'Europe/Rome', showDate: true },
};
const DEVICE_VARIABLE = { name: 'boiler', kind: 'device' };

describe.each(sqliteOnly())('rules of content on $name', (engine) => {
  let fixture: DashboardFixture;
  let device: TestDevice;
  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
    device = await fixture.owner.createDevice('Boiler', ['temperature']);
  });
  afterAll(async () => await fixture.stop());

  /** Returns the violations of content as `field: description`. */
  async function findViolations(content: JsonObject): Promise<string[]> {
    const answer = await fixture.owner.try(`${DASHBOARDS}/CreateDashboard`, { name: 'Invalid', content });
    expect(answer.status).toBe(400);
    return readViolations(answer.json);
  }

  test.each<[string, JsonObject, RegExp]>([
    [
      'an unknown kind',
      { widgets: [{ kind: 'pie' }] },
      /^content\.widgets\[0\]\.kind: "pie" is not a kind of this server: use one of `time_series`, .*`clock`$/,
    ],
    [
      'an option that the kind does not have',
      { widgets: [{ kind: 'gauge', options: { minimum: 3 } }] },
      /^content\.widgets\[0\]\.options\.minimum: is not a known setting/,
    ],
    [
      'an option of another type',
      { widgets: [{ kind: 'gauge', options: { min: 'low' } }] },
      /^content\.widgets\[0\]\.options\.min: must be a number/,
    ],
    ['a required option', { widgets: [{ kind: 'text' }] }, /^content\.widgets\[0\]\.options\.text: is required/],
    [
      'series of a kind without series',
      { widgets: [{ ...CLOCK, series: [{ missingDevice: 'Boiler', keyName: 'temperature' }] }] },
      /^content\.widgets\[0\]\.series: has 1 items: a widget of the kind clock can have at most 0$/,
    ],
    [
      'no reference',
      { widgets: [{ kind: 'latest', series: [{ label: 'nothing' }] }] },
      /series\[0\]: must have exactly one of sensorId, deviceId, deviceVariable and missingDevice \(got 0\)$/,
    ],
    [
      'two references',
      { widgets: [{ kind: 'latest', series: [{ sensorId: 'a', deviceId: 'b' }] }] },
      /series\[0\]: must have exactly one of .* \(got 2\)$/,
    ],
    [
      'a device without a key',
      { widgets: [{ kind: 'latest', series: [{ missingDevice: 'a' }] }] },
      /series\[0\]\.keyName: is required without sensorId/,
    ],
    [
      'a sensor that does not exist',
      { widgets: [{ kind: 'latest', series: [{ sensorId: 'nobody' }] }] },
      /^content\.widgets\[0\]\.series\[0\]\.sensorId: "nobody" is not a sensor of this organization/,
    ],
    [
      'a device that does not exist',
      { widgets: [{ kind: 'latest', series: [{ deviceId: 'nobody', keyName: 'temperature' }] }] },
      /^content\.widgets\[0\]\.series\[0\]\.deviceId: "nobody" is not a device of this organization/,
    ],
    [
      'a device of options that does not exist',
      { widgets: [{ kind: 'executions', options: { deviceId: 'nobody' } }] },
      /^content\.widgets\[0\]\.options\.deviceId: "nobody" is not a device/,
    ],
    [
      'a variable that does not exist',
      { widgets: [{ kind: 'latest', series: [{ deviceVariable: 'boiler', keyName: 'temperature' }] }] },
      /deviceVariable: "boiler" is not a device variable of the dashboard: it has none/,
    ],
    [
      'a choice as a device variable',
      {
        widgets: [{ kind: 'executions', options: { deviceVariable: 'shift' } }],
        variables: [{ name: 'shift', kind: 'choice', choices: ['day', 'night'] }, DEVICE_VARIABLE],
      },
      /options\.deviceVariable: "shift" is not a device variable of the dashboard: use one of `boiler`$/,
    ],
    [
      'a device by its id and as missing',
      { widgets: [{ kind: 'executions', options: { missingDevice: 'Boiler 1', deviceId: 'a' } }] },
      /options\.missingDevice: must not be set together with deviceId/,
    ],
    [
      'a device and a variable',
      {
        widgets: [{ kind: 'executions', options: { deviceVariable: 'boiler', deviceId: 'a' } }],
        variables: [DEVICE_VARIABLE],
      },
      /options\.deviceVariable: must not be set together with deviceId/,
    ],
    [
      'a place of no widget',
      { widgets: [{ id: 'a', ...CLOCK }], layout: [{ widgetId: 'b', column: 0, ...PLACE }] },
      /^content\.layout\[0\]\.widgetId: "b" is not a widget of this content/,
    ],
    [
      'two places of a widget',
      {
        widgets: [{ id: 'a', ...CLOCK }],
        layout: [
          { widgetId: 'a', column: 0, ...PLACE },
          { widgetId: 'a', column: 4, ...PLACE },
        ],
      },
      /^content\.layout: contains the place for the widget "a" more than once/,
    ],
    [
      'places that overlap',
      {
        widgets: [
          { id: 'a', ...CLOCK },
          { id: 'b', ...CLOCK },
        ],
        layout: [
          { widgetId: 'a', column: 0, ...PLACE },
          { widgetId: 'b', column: 3, ...PLACE, row: 1 },
        ],
      },
      /^content\.layout\[1\]: overlaps content\.layout\[0\]: move one/,
    ],
    [
      'a place beyond the last column',
      { widgets: [{ id: 'a', ...CLOCK }], layout: [{ widgetId: 'a', column: 21, ...PLACE }] },
      /^content\.layout\[0\]\.width: ends in column 25: column and width together must be at most 24$/,
    ],
    [
      'a place that is too small',
      { widgets: [{ id: 'a', kind: 'table' }], layout: [{ widgetId: 'a', column: 0, ...PLACE }] },
      /^content\.layout\[0\]\.height: must be at least 3 for the kind table \(got 2\)$/,
    ],
    [
      'two widgets with the same id',
      {
        widgets: [
          { id: 'a', ...CLOCK },
          { id: 'a', ...CLOCK },
        ],
      },
      /^content\.widgets: contains the widget "a" more than once/,
    ],
    [
      'the name of a variable',
      { variables: [{ name: '1st boiler', kind: 'device' }] },
      /^content\.variables\[0\]\.name: must consist of letters, digits and underscores/,
    ],
    [
      'a value that is not a choice',
      { variables: [{ name: 'shift', kind: 'choice', choices: ['day'], value: 'night' }] },
      /^content\.variables\[0\]\.value: must be one of the choices/,
    ],
    ['a choice without texts', { variables: [{ name: 'shift', kind: 'choice' }] }, /choices: is required for a choice/],
  ])('reports %s', async (_name, content, expected) => {
    const violations = await findViolations(content);
    expect(violations.some((violation) => expected.test(violation)) || violations).toBe(true);
  });

  test('accepts every kind of reference, and keeps one to a deleted device', async () => {
    const { owner } = fixture;
    const gone = await owner.createDevice('Gone', ['temperature']);
    const content = {
      variables: [{ ...DEVICE_VARIABLE, value: gone.id, keyNames: ['temperature'] }],
      widgets: [
        {
          id: 'a',
          kind: 'time_series',
          series: [
            { sensorId: device.sensorIds[0] },
            { sensorId: gone.sensorIds[0], label: 'Gone' },
            { deviceId: gone.id, keyName: 'temperature' },
            { deviceVariable: 'boiler', keyName: 'temperature' },
            { missingDevice: 'Boiler 3', keyName: 'temperature' },
          ],
        },
        { id: 'b', kind: 'command', options: { deviceId: gone.id, commandName: 'Stop' } },
      ],
    };
    const created = await owner.createDashboard({ content });
    const deleted = await owner.call(`/digitaldevice.v2.DigitalDeviceService/DeleteDigitalDevice`, { id: gone.id });
    expect(deleted).toEqual({ dashboardCount: 1 });
    const kept = await owner.getDashboard(created.id);
    expect(kept.content).toEqual(created.content);
    const set = { id: created.id, content: kept.content, etag: kept.etag };
    expect((await owner.call<DashboardJson>(`${DASHBOARDS}/SetDashboardContent`, set)).content).toEqual(kept.content);
    const again = await owner.try(`${DASHBOARDS}/CreateDashboard`, { name: 'Copy', content: kept.content });
    expect(readViolations(again.json)).toHaveLength(4);
  });

  test('says the limits with their numbers', async () => {
    const { owner } = fixture;
    const widgets = (count: number): JsonObject[] => Array.from({ length: count }, () => CLOCK);
    expect(
      await owner.fail(`${DASHBOARDS}/CreateDashboard`, { name: 'Many', content: { widgets: widgets(61) } }),
    ).toEqual({
      code: 'too_many_widgets',
      status: 409,
      message: 'a dashboard can have at most 60 widgets (got 61): use two dashboards',
    });
    const { id: dashboardId } = await owner.createDashboard({ content: { widgets: widgets(60) } });
    expect(await owner.fail(`${WIDGETS}/CreateWidget`, { dashboardId, ...CLOCK })).toMatchObject({
      code: 'too_many_widgets',
    });
    const sensors = Array.from({ length: 11 }, (_, index) => ({ kind: 'latest', series: createSeries(index * 20) }));
    expect(
      await owner.fail(`${DASHBOARDS}/CreateDashboard`, { name: 'Many', content: { widgets: sensors } }),
    ).toMatchObject({
      code: 'too_many_sensors',
      message: expect.stringContaining('at most 200 different sensors (got 220)'),
    });
    const text = { kind: 'text', options: { text: 'ü'.repeat(8000) } };
    const { id } = await owner.createDashboard({ content: { widgets: Array.from({ length: 32 }, () => text) } });
    expect(await owner.fail(`${WIDGETS}/CreateWidget`, { dashboardId: id, ...text })).toMatchObject({
      code: 'content_too_large',
      message: expect.stringContaining('at most 524288 bytes'),
    });
  });

  test('refuses the 1,001st dashboard', async () => {
    const owner = await fixture.organization('Many dashboards');
    const { id } = await owner.createDashboard();
    const { knex } = fixture.server.database.database.db;
    const [row] = (await knex('dashboards').where({ id })) as JsonObject[];
    const copies = Array.from({ length: 999 }, (_, index) => ({
      ...row,
      id: `copy-${index}`,
      name: `Copy ${index}`,
      name_folded: `copy ${index}`,
    }));
    for (const copy of copies) await knex('dashboards').insert(copy);
    expect(await owner.fail(`${DASHBOARDS}/CreateDashboard`, { name: 'One more' })).toMatchObject({
      code: 'too_many_dashboards',
      status: 409,
      message: expect.stringContaining('1000'),
    });
  });

  test('keeps a widget of an unknown kind, but creates none', async () => {
    const { owner } = fixture;
    const widget = { id: '1', kind: 'hologram', title: 'Future', options: { depth: 3 } };
    const document = {
      format: 'plantroom.dashboard',
      formatVersion: 1,
      name: 'Future',
      content: { widgets: [widget] },
    };
    const { dashboard } = await owner.call<{ dashboard: DashboardJson }>(`${DASHBOARDS}/ImportDashboard`, { document });
    expect(dashboard.content.widgets[0]).toMatchObject({ kind: 'hologram', unknownKind: true, options: { depth: 3 } });
    const set = { id: dashboard.id, content: dashboard.content, etag: dashboard.etag };
    const kept = await owner.call<DashboardJson>(`${DASHBOARDS}/SetDashboardContent`, set);
    expect(kept.content).toEqual(dashboard.content);
    for (const [path, request] of [
      [`${WIDGETS}/CreateWidget`, { dashboardId: dashboard.id, kind: 'hologram' }],
      [`${DASHBOARDS}/CreateDashboard`, { name: 'Copy', content: dashboard.content }],
      [
        `${DASHBOARDS}/SetDashboardContent`,
        { id: dashboard.id, etag: kept.etag, content: { widgets: [...kept.content.widgets, { kind: 'hologram' }] } },
      ],
    ] as const)
      expect(await owner.fail(path, request)).toMatchObject({ code: 'validation_failed' });
  });

  test('lists the kinds with valid schemas', async () => {
    const { kinds } = await fixture.owner.call<{
      kinds: { id: string; optionsSchema: JsonObject; maxSeries: number }[];
    }>(`${WIDGETS}/ListWidgetKinds`, {});
    expect(kinds.map(({ id }) => id)).toEqual([
      'time_series',
      'latest',
      'gauge',
      'state_timeline',
      'table',
      'command',
      'executions',
      'connections',
      'alarms',
      'text',
      'image',
      'clock',
    ]);
    const ajv = new Ajv2020();
    for (const { id, optionsSchema } of kinds) {
      expect([id, ajv.validateSchema(optionsSchema)]).toEqual([id, true]);
      expect(optionsSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(Object.keys(OPTIONS)).toContain(id);
    }
  });

  test('accepts options of every kind', async () => {
    const widgets = Object.entries(OPTIONS).map(([kind, options]) => ({ kind, options }));
    const { content } = await fixture.owner.createDashboard({ content: { widgets } });
    expect(content.widgets.map(({ kind, options }) => [kind, options])).toEqual(Object.entries(OPTIONS));
  });
});

/** Creates 20 series of devices with numbers from `from`. */
function createSeries(from: number): JsonObject[] {
  return Array.from({ length: 20 }, (_, index) => ({
    missingDevice: `Device ${from + index}`,
    keyName: 'temperature',
  }));
}

/** Returns the violations of an error as `field: description`. */
function readViolations(json: JsonObject): string[] {
  const { details } = json['error'] as { details: { fieldViolations?: { field: string; description: string }[] }[] };
  return details
    .flatMap(({ fieldViolations = [] }) => fieldViolations)
    .map(({ field, description }) => `${field}: ${description}`);
}
