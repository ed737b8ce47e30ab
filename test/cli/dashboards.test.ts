import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import {
  CreateDigitalDeviceRequest,
  type DigitalDevice,
  DigitalDeviceServiceClient,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { plantroomHere } from '../support/commandInProcess';
import { plantroom, plantroomServe, type Ended, type ServeProcess } from '../support/commandLine';
import { call as unary } from '../support/edge';

const DOCUMENT = `format: plantroom.dashboard
formatVersion: 1
name: Boiler house
description: |-
  Two boilers
  and a pump
content:
  widgets:
    - id: "1"
      kind: time_series
      title: "Temperature: all"
      options:
        max: 90
        min: 0
      series:
        - { deviceId: device1, keyName: temperature }
        - { deviceVariable: boiler, keyName: temperature, label: "1" }
    - id: "2"
      kind: text
      options:
        text: "Call\\nthe caretaker\\e[31m"
  layout:
    - { widgetId: "1", column: 0, row: 0, width: 12, height: 6 }
    - { widgetId: "2", column: 12, row: 0, width: 6, height: 6 }
  variables:
    - name: boiler
      kind: device
      keyNames:
        - temperature
      value: device1
  lastSeconds: 3600
devices:
  - ref: device1
    name: Boiler 1
    keyNames:
      - temperature
`;

describe('plantroom dashboards', () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServeProcess;
  const deviceIds: string[] = [];

  const dashboards = async (...args: string[]): Promise<Ended> => await plantroomHere(['dashboards', ...args], env);
  const call = async (method: string, request: object): Promise<Record<string, unknown>> =>
    JSON.parse((await plantroomHere(['call', method, JSON.stringify(request)], env)).stdout) as Record<string, unknown>;
  const writeDocument = (text: string): string => {
    const file = join(folder, 'document.yaml');
    writeFileSync(file, text);
    return file;
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-dashboards-'));
    env = {
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: 'off',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json'),
    };
    server = await plantroomServe(env);
    const { normalizedKeys } = (await call('ListNormalizedKeys', {})) as {
      normalizedKeys: { id: string; name: string }[];
    };
    const keyNameId = normalizedKeys.find(({ name }) => name === 'temperature')?.id;
    const template = { keyNameId, sensorType: 'x', valueType: 'number', unitMeasurementId: 'Cel' };
    const { id: templateId } = await call('CreateSensorTemplate', template);
    for (const name of ['Boiler 1', 'Boiler 2', 'Twin', 'Twin']) {
      const { id } = (await call('CreateDigitalDevice', { name })) as { id: string };
      await call('AddSensorsToDevice', { id, sensorTemplateIds: [templateId] });
      deviceIds.push(id);
    }
    expect(await dashboards('import', writeDocument(DOCUMENT))).toMatchObject({ code: 0 });
  });

  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('exports the text that was imported', async () => {
    expect(await dashboards('export', 'boiler HOUSE')).toEqual({ code: 0, stdout: DOCUMENT, stderr: '' });
    const file = join(folder, 'exported.yaml');
    const { code, stdout } = await dashboards('export', 'Boiler house', file);
    expect([code, stdout, readFileSync(file, 'utf8')]).toEqual([0, '', DOCUMENT]);
  });

  it('imports JSON from stdin and exports the same dashboard as YAML', async () => {
    const { stdout: json } = await dashboards('export', 'Boiler house', '-o', 'json');
    expect(json).not.toMatch(/etag|createdAt|""|\[\]/);
    const imported = await plantroom(['dashboards', 'import', '-', '--name', 'From JSON'], env, json);
    expect(imported.code).toBe(0);
    expect((await dashboards('export', 'From JSON')).stdout).toBe(DOCUMENT.replace('Boiler house', 'From JSON'));
  });

  it('lists dashboards', async () => {
    const { stdout } = await dashboards('list', '--search', 'boiler h');
    const [head, row, ...others] = stdout.trimEnd().split('\n');
    expect(head?.trim().split(/\s+/)).toEqual(['name', 'visibility', 'owner', 'widgets', 'changed']);
    expect(row).toMatch(/^ Boiler house {2}organization {2}Administrator {2}2 {8}\d{4}-\d\d-\d\dT[\d:]+Z$/);
    expect(others).toEqual([]);
    const { stdout: json } = await dashboards('list', '--search', 'boiler h', '--json');
    expect(JSON.parse(json)).toMatchObject([{ name: 'Boiler house', widgets: 2, owner: 'Administrator' }]);
    const { stdout: yaml } = await dashboards('list', '--search', 'boiler h', '-o', 'yaml');
    expect(yaml).toContain('  name: Boiler house\n  visibility: organization\n');
    expect((await dashboards('list', '--search', 'nothing')).stdout).toBe('none\n');
    await call('CreateDashboard', { name: 'Without widgets' });
    const { stdout: empty } = await dashboards('list', '--search', 'without widgets', '--json');
    expect(JSON.parse(empty)).toMatchObject([{ widgets: 0 }]);
  });

  it('shows the owner by id to a key that may not list members', async () => {
    const args = ['--name', 'reader', '--scopes', 'dashboards:read,devices:read', '--json'];
    const { stdout: created } = await plantroomHere(['keys', 'create', ...args], env);
    const { key } = JSON.parse(created) as { key: string };
    const { stdout } = await dashboards('list', '--search', 'boiler h', '--json', '--key', key);
    expect(JSON.parse(stdout)).toMatchObject([{ owner: expect.stringMatching(/^[0-9a-f-]{36}$/) as string }]);
  });

  it('shows the widgets with devices and keys', async () => {
    const { stdout } = await dashboards('show', 'Boiler house');
    expect(stdout).toContain('\nTwo boilers\nand a pump\n');
    expect(stdout.split('\n').slice(-4)).toEqual([
      ' place     kind         title             series',
      ' 0,0 12x6  time_series  Temperature: all  Boiler 1 temperature, $boiler temperature',
      ' 12,0 6x6  text         -                 -',
      '',
    ]);
    const { stdout: json } = await dashboards('show', 'Boiler house', '--json');
    const { id, content } = JSON.parse(json) as { id: string; content: { widgets: object[] } };
    expect(content.widgets).toHaveLength(2);
    expect((await dashboards('show', id, '-o', 'yaml')).stdout).toContain('name: Boiler house\n');
  });

  it('suggests the name of a dashboard that exists', async () => {
    expect(await dashboards('show', 'Boilerhouse')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'plantroom: dashboard "Boilerhouse" not found; did you mean "Boiler house"?\n',
    });
  });

  it('reports in a dry run what is missing, with exit code 1, and imports it anyway', async () => {
    const file = writeDocument(DOCUMENT.replace('name: Boiler 1', 'name: Nowhere'));
    const dryRun = await dashboards('import', file, '--name', 'Incomplete', '--dry-run');
    expect(dryRun).toMatchObject({ code: 1, stderr: expect.stringContaining('--device REF=DEVICE') as string });
    expect(dryRun.stdout).toMatch(/device1 +Nowhere +- +not_found\n$/);
    expect((await dashboards('list', '--search', 'incomplete')).stdout).toBe('none\n');
    expect(await dashboards('import', file, '--name', 'Incomplete')).toMatchObject({ code: 0 });
    expect((await dashboards('show', 'Incomplete')).stdout).toContain('Nowhere (missing) temperature');
  });

  it('binds a device by name or id', async () => {
    const file = writeDocument(DOCUMENT);
    const run = async (device: string): Promise<Ended> =>
      await dashboards('import', file, '--name', 'Bound', '--dry-run', '--json', '--device', `device1=${device}`);
    const byName = await run('Boiler 2');
    expect([byName.code, JSON.parse(byName.stdout)]).toMatchObject([0, { devices: { device1: deviceIds[1] } }]);
    const byId = await run(deviceIds[3] ?? '');
    expect(JSON.parse(byId.stdout)).toMatchObject({ devices: { device1: deviceIds[3] } });
    const ambiguous = await run('Twin');
    expect(ambiguous.code).toBe(2);
    for (const id of deviceIds.slice(2, 4)) expect(ambiguous.stderr).toContain(`\n  ${id}\n`);
    expect(await run('boiler 3')).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean') as string });
  });

  it('binds a device by name, case-insensitive, if many newer devices contain the name', async () => {
    const devices = new DigitalDeviceServiceClient(String(server.ready['grpc']), credentials.createInsecure());
    const { apiKey, organizationId } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as {
      apiKey: string;
      organizationId: string;
    };
    const create = async (number: number) =>
      await unary<CreateDigitalDeviceRequest, DigitalDevice>(
        devices.createDigitalDevice.bind(devices),
        CreateDigitalDeviceRequest.fromPartial({ name: `Boiler 2 valve ${number}` }),
        { 'x-api-key': apiKey, 'x-organization-id': organizationId },
      );
    await Promise.all(Array.from({ length: 201 }, async (_, number) => await create(number)));
    devices.close();
    const file = writeDocument(DOCUMENT);
    const args = ['--name', 'Bound', '--dry-run', '--json', '--device', 'device1=BOILER 2'];
    const { stdout } = await dashboards('import', file, ...args);
    expect(JSON.parse(stdout)).toMatchObject({ devices: { device1: deviceIds[1] } });
  });

  it('shows everything that an import does not find', async () => {
    const widgets = [
      '    - { kind: command, options: { deviceId: device1, commandName: Stop } }',
      '    - { kind: executions, options: { missingDevice: Gone } }',
      '    - { kind: connections, options: { connectionNames: [Roof] } }',
      '    - { kind: latest, series: [{ deviceId: device1, keyName: humidity }] }',
    ];
    const file = writeDocument(DOCUMENT.replace('  widgets:', ['  widgets:', ...widgets].join('\n')));
    const { code, stdout } = await dashboards('import', file, '--name', 'Gaps', '--dry-run');
    expect(code).toBe(1);
    expect(stdout).toMatch(/ device1 +Boiler 1 +[0-9a-f-]{36} +sensor_not_found: humidity; command_not_found: Stop\n/);
    expect(stdout).toMatch(/ - +Gone +- +not_found\n/);
    expect(stdout).toMatch(/ - +Roof +- +connection_not_found\n/);
    await dashboards('import', file, '--name', 'Gaps');
    expect((await dashboards('show', 'Gaps')).stdout).toMatch(/executions +- +Gone \(missing\)\n/);
  });

  it.each([
    ['a wrong place', ['column: 12', 'column: 30'], 'line 24, content.layout[1].column: must be a number from 0 to 23'],
    ['an unknown field', ['      title:', '      titel:'], 'line 11, content.widgets[0].titel: unk'],
    [
      'an unknown ref',
      ['deviceId: device1', 'deviceId: other'],
      'line 16, content.widgets[0].series[0].deviceId: "oth',
    ],
    ['a newer version', ['Version: 1', 'Version: 2'], 'line 2, formatVersion: must be 1 (got 2)'],
    ['a syntax error', ['  widgets:', '  widgets: ['], 'is not valid YAML: '],
  ] as const)('names the line of %s', async (_, [from, to], message) => {
    const { code, stderr } = await dashboards('import', writeDocument(DOCUMENT.replace(from, to)), '--name', 'Wrong');
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });

  it('refuses files that are too deep, too large, missing or no document', async () => {
    const deep = await dashboards('import', writeDocument('['.repeat(5000)));
    expect(deep).toMatchObject({ code: 2, stderr: expect.stringContaining('nested deeper than') as string });
    const large = await dashboards('import', writeDocument(`a: ${'x'.repeat(1024 * 1024)}`));
    expect(large).toMatchObject({ code: 2, stderr: expect.stringContaining('is larger than 1 MiB') as string });
    const missing = await dashboards('import', join(folder, 'none.yaml'));
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('(ENOENT)') as string });
    const list = await dashboards('import', writeDocument('- a'));
    expect(list).toMatchObject({ code: 2, stderr: expect.stringContaining('is not an exported dashboard') as string });
    const folderMissing = await dashboards('export', 'Boiler house', join(folder, 'none', 'a.yaml'));
    expect(folderMissing).toMatchObject({ code: 2, stderr: expect.stringContaining('(ENOENT)') as string });
  });

  it('reports a name that is taken', async () => {
    const { code, stderr } = await dashboards('import', writeDocument(DOCUMENT));
    expect(code).toBe(1);
    expect(stderr).toContain('ALREADY_EXISTS name_taken: a dashboard named "Boiler house" already exists');
  });

  it('creates starter dashboards once', async () => {
    const { stdout: first } = await dashboards('starter');
    expect(first).toMatch(/ Site overview +created +[0-9a-f-]{36}\n/);
    const second = await dashboards('starter');
    expect(second.stdout).toMatch(/ Site overview +exists +[0-9a-f-]{36}\n/);
    expect(second.stderr).toContain('--again');
  });
});
