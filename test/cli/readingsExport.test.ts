import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toColumns, toTimeSourceColumn } from '../../src/telemetry/readings/storedReading';
import { openDatabase } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { plantroomHere } from '../support/commandInProcess';
import { plantroomInShell, plantroomServe, type Ended, type ServeProcess } from '../support/commandLine';

const START = Date.UTC(2026, 0, 31);
const FROM = ['--from', '2026-01-31', '--to', '2026-02-01T00:00:01+00:00'];

describe('plantroom readings export', () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServeProcess;
  let device: { id: string; sensors: { id: string }[] };
  let other: { id: string; sensors: { id: string }[] };

  const call = async (method: string, request: object): Promise<Record<string, unknown>> =>
    JSON.parse((await plantroomHere(['call', method, JSON.stringify(request)], env)).stdout) as Record<string, unknown>;
  const runExport = async (...args: string[]): Promise<Ended> =>
    await plantroomHere(['readings', 'export', ...args], env);
  const shell = async (script: string): Promise<Ended> =>
    await plantroomInShell(script, ['readings', 'export', ...FROM], env);

  const rowsBetween = async (from: number, to: number): Promise<string[]> => {
    const { stdout } = await runExport(
      '--from',
      new Date(START + from).toISOString(),
      '--to',
      new Date(START + to).toISOString(),
      '--device',
      other.id,
    );
    return stdout.split('\r\n').slice(1, -1);
  };

  async function deviceWith(
    name: string,
    types: readonly string[],
  ): Promise<{ id: string; sensors: { id: string }[] }> {
    const { normalizedKeys } = (await call('ListNormalizedKeys', {})) as {
      normalizedKeys: { id: string; name: string }[];
    };
    const keyNameId = normalizedKeys.find((key) => key.name === 'temperature')?.id;
    const { id } = (await call('CreateDigitalDevice', { name })) as { id: string };
    const templates = [];
    for (const valueType of types)
      templates.push(
        (await call('CreateSensorTemplate', { keyNameId, sensorType: 'x', valueType, unitMeasurementId: 'Cel' }))['id'],
      );
    return (await call('AddSensorsToDevice', { id, sensorTemplateIds: templates })) as unknown as typeof device;
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-export-'));
    env = {
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: 'off',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json'),
    };
    server = await plantroomServe(env);
    device = await deviceWith('=cmd|calc, "x"', ['number', 'string', 'json', 'boolean']);
    other = await deviceWith('Plain', ['integer']);
    const database = await openDatabase({ url: '', dataDir: join(folder, 'data'), log: silentLogger, poolSize: 1 });
    const { organizationId } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as { organizationId: string };
    const shown = [
      [device.sensors[0], 'number', [-21.5, 0]],
      [device.sensors[1], 'string', ['@SUM(A1)', 'two\nlines', 'plain']],
      [device.sensors[2], 'json', [{ a: [1, null] }, null]],
      [device.sensors[3], 'boolean', [false]],
      [other.sensors[0], 'integer', Array.from({ length: 10_500 }, (_, i) => i)],
    ] as const;
    for (const [number, [sensor, type, values]] of shown.entries()) {
      await database.db
        .knex('reading_series')
        .insert({ number: number + 1, sensor_id: sensor?.id, organization_id: organizationId });
      const rows = values.map((value, i) => ({
        series: number + 1,
        time: START + i,
        position: i,
        ...toColumns(type, value),
        time_source: sensor === device.sensors[0] ? toTimeSourceColumn('device') : null,
      }));
      for (let at = 0; at < rows.length; at += 100) await database.db.knex('readings').insert(rows.slice(at, at + 100));
    }
    await database.close();
  });
  afterAll(async () => {
    await server.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  it('writes CSV without formulas in text cells', async () => {
    const { code, stdout, stderr } = await runExport(...FROM, '--device', device.id);
    expect([code, stderr]).toEqual([0, '']);
    const start = (sensor: number) => `${device.id},"'=cmd|calc, ""x""",${device.sensors[sensor]?.id},temperature,°C`;
    expect(stdout).toBe(
      [
        'device_id,device_name,sensor_id,key,unit,time,value,time_source',
        `${start(0)},2026-01-31T00:00:00.000Z,-21.5,device`,
        `${start(0)},2026-01-31T00:00:00.001Z,0,device`,
        `${start(1)},2026-01-31T00:00:00.000Z,'@SUM(A1),`,
        `${start(1)},2026-01-31T00:00:00.001Z,"two\nlines",`,
        `${start(1)},2026-01-31T00:00:00.002Z,plain,`,
        `${start(2)},2026-01-31T00:00:00.000Z,"{""a"":[1,null]}",`,
        `${start(2)},2026-01-31T00:00:00.001Z,null,`,
        `${start(3)},2026-01-31T00:00:00.000Z,false,`,
        '',
      ].join('\r\n'),
    );
  });

  it('writes JSON lines of single sensors unchanged', async () => {
    const { stdout } = await runExport(
      ...FROM,
      '--sensor',
      `${device.sensors[1]?.id},${device.sensors[2]?.id}`,
      '--format',
      'jsonl',
    );
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ value }) => value)).toEqual(['@SUM(A1)', 'two\nlines', 'plain', { a: [1, null] }, null]);
    expect(lines[0]).toMatchObject({
      deviceId: device.id,
      deviceName: '=cmd|calc, "x"',
      sensorId: device.sensors[1]?.id,
      key: 'temperature',
      unit: '°C',
      time: '2026-01-31T00:00:00.000Z',
      receivedAt: '1970-01-01T00:00:00.000Z',
    });
    expect(lines[0]).not.toHaveProperty('timeSource');
  });

  it('writes all devices to a file, page by page, and prints a summary', async () => {
    const output = join(folder, 'all.csv');
    const { code, stdout } = await runExport(...FROM, '--output', output, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      output,
      devices: 2,
      sensors: 5,
      readings: 10_508,
      from: '2026-01-31T00:00:00.000Z',
      to: '2026-02-01T00:00:01.000Z',
    });
    const rows = readFileSync(output, 'utf8').trim().split('\r\n');
    expect(rows).toHaveLength(10_509);
    expect(rows.filter((row) => row.startsWith(other.id)).map((row) => Number(row.split(',').at(-2)))).toEqual(
      Array.from({ length: 10_500 }, (_, i) => i),
    );
    expect(readdirSync(folder).filter((name) => name.includes('.part'))).toEqual([]);
  });

  it('exports adjacent time ranges without gaps or overlaps', async () => {
    expect([...(await rowsBetween(0, 5000)), ...(await rowsBetween(5000, 20_000))]).toEqual(
      await rowsBetween(0, 20_000),
    );
  });

  it('does not change the output file when it fails, and explains the error', async () => {
    const output = join(folder, 'failed.csv');
    expect(await runExport(...FROM, '--device', other.id, '--sensor', 'nobody', '--output', output)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('NOT_FOUND sensor_not_found'),
    });
    expect(await runExport(...FROM, '--device', `${other.id},nobody`, '--output', output)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('device_not_found'),
    });
    expect([existsSync(output), readdirSync(folder).filter((name) => name.includes('.part'))]).toEqual([false, []]);
    expect(await runExport(...FROM, '--output', join(folder, 'no', 'such', 'x.csv'))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('does not exist. Create it first'),
    });
    expect(await runExport('--from', 'yesterday')).toMatchObject({ code: 2, stderr: expect.stringContaining('7d') });
    expect(await runExport('--from', '1000000000d')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('365d'),
    });
    expect(await runExport('--from', '2026-02-31T25:00Z')).toMatchObject({ code: 2 });
    expect(await runExport('--from', '2026-01-02', '--to', '2026-01-01')).toMatchObject({
      code: 2,
      stderr: 'plantroom: --to must be after --from\n',
    });
    expect(await runExport(...FROM, '--json')).toMatchObject({ code: 2, stderr: expect.stringContaining('--output') });
    expect((await runExport('--from', '1h')).stdout).toBe(
      'device_id,device_name,sensor_id,key,unit,time,value,time_source\r\n',
    );
  });

  it('rejects an invalid output file before it calls the server', async () => {
    const unreachable = ['--address', '127.0.0.1:1', '--plaintext'];
    expect(await runExport(...FROM, '--output', folder, ...unreachable)).toEqual({
      code: 2,
      stdout: '',
      stderr: `plantroom: --output ${folder} is a folder: name a file in it, for example ${join(folder, 'readings.csv')}\n`,
    });
    expect(await runExport(...FROM, '--output', join(folder, 'no', 'x.csv'), ...unreachable)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`the folder ${join(folder, 'no')} does not exist. Create it first`),
    });
    expect(await runExport(...FROM, '--output', join(folder, 'key.json', 'x.csv'), ...unreachable)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`${join(folder, 'key.json')} is a file`),
    });
    const locked = join(folder, 'locked');
    mkdirSync(locked, { mode: 0o500 });
    // Root may write everywhere, so for root only the missing server is an error.
    expect(await runExport(...FROM, '--output', join(locked, 'x.csv'), ...unreachable)).toMatchObject(
      process.getuid?.() === 0 ? { code: 1 } : { code: 2, stderr: expect.stringContaining('(EACCES)') },
    );
    expect([readdirSync(locked), readdirSync(folder).filter((name) => name.includes('.part'))]).toEqual([[], []]);
  });

  it('names the file for which the disk was full, and keeps no part of it', async () => {
    expect(await runExport(...FROM, '--output', '/dev/full')).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'plantroom: the readings cannot be written to /dev/full: the disk is full (ENOSPC). Free some space, or choose another disk with --output\n',
    });
    expect(statSync('/dev/full').isCharacterDevice()).toBe(true);
    const output = join(folder, 'large.csv');
    const limited = await shell(`ulimit -f 64; exec "$@" --output '${output}'`);
    expect(limited).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `cannot be written to ${output}: the file would exceed the maximum file size (EFBIG). Export a shorter time range`,
      ),
    });
    expect(readdirSync(folder).filter((name) => name.includes('large.csv'))).toEqual([]);
    expect(await shell('exec "$@" >/dev/full')).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'plantroom: stdout cannot be written (ENOSPC): the disk is full; free disk space; the output is incomplete\n',
    });
  });

  it('keeps a symbolic link and writes to its target', async () => {
    const [output, link] = [join(folder, 'real.csv'), join(folder, 'link.csv')];
    writeFileSync(output, 'old');
    symlinkSync(output, link);
    expect(await runExport('--from', '1h', '--output', link)).toMatchObject({ code: 0 });
    expect([lstatSync(link).isSymbolicLink(), readFileSync(output, 'utf8')]).toEqual([
      true,
      'device_id,device_name,sensor_id,key,unit,time,value,time_source\r\n',
    ]);
  });
});
