import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatBackupName } from '../../src/backup';
import { createBackupFamilies } from '../../src/observability/metrics/backupMetrics';
import { shareCall } from '../../src/kernel/withTimeout';
import { startLimitedSite, type LimitedSite } from '../app/limitedSite';
import { sqliteOnly } from '../support/engines';
import { HttpClient } from '../support/http';

const file = (path: string): string => readFileSync(`${__dirname}/../../${path}`, 'utf8');

/** Returns the value of a series as the text contains it, or undefined if it is missing. */
function parseValue(text: string, series: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

describe('the metrics of backups', () => {
  const INSTALLATION = 'installation-1';
  let root: string;
  beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'plantroom-backups-'))));
  afterEach(() => rmSync(root, { recursive: true }));

  const findShown = async (dir: string): Promise<Record<string, number | undefined>> => {
    const families = createBackupFamilies({ schedule: '30 2 * * *', dir, installationId: INSTALLATION });
    const values = await Promise.all(
      families.map(
        async ({ name, samples }) =>
          [
            name.replace('plantroom_backup', ''),
            Array.from((await samples()) as Iterable<{ value: number }>)[0]?.value,
          ] as const,
      ),
    );
    return Object.fromEntries(values);
  };

  it('describe the newest one that is not dated in the future', async () => {
    const createdAt = Math.floor(Date.now() / 1000) * 1000 - 60_000;
    for (const [at, text] of [
      [createdAt, 'new'],
      [createdAt - 86_400_000, 'older'],
      [createdAt + 3650 * 86_400_000, 'of a clock that was ahead'],
    ] as const)
      writeFileSync(join(root, formatBackupName(at, INSTALLATION, false)), text);
    writeFileSync(join(root, formatBackupName(createdAt + 30_000, 'another', false)), 'of somebody else');
    expect(await findShown(root)).toEqual({
      _scheduled: 1,
      _interval_seconds: 86_400,
      _last_success_timestamp_seconds: createdAt / 1000,
      _last_size_bytes: 3,
      s: 3,
    });
  });

  it.each(['nowhere', 'file'])('are 0, not missing, where the folder cannot be read: %s', async (name) => {
    writeFileSync(join(root, 'file'), 'no folder');
    expect(await findShown(join(root, name))).toEqual({
      _scheduled: 1,
      _interval_seconds: 86_400,
      _last_success_timestamp_seconds: 0,
      _last_size_bytes: undefined,
      s: 0,
    });
  });

  it('of a hanging disk are neither awaited nor read twice', async () => {
    let reads = 0;
    const readOnce = shareCall(5, async () => await new Promise<string>(() => (reads += 1)), 'none');
    expect([await readOnce(), await readOnce(), reads]).toEqual(['none', 'none', 1]);
  });
});

describe.each(sqliteOnly())('the metrics of a server on $name', (engine) => {
  let site: LimitedSite;
  let http: HttpClient;
  let text = '';
  beforeAll(async () => {
    site = await startLimitedSite(engine, { 'metrics.listen': '127.0.0.1:0' });
    http = new HttpClient(site.server.app.addresses.metrics ?? '', undefined);
    await site.send(site.connections[0], site.bound, 1);
    await site.send(site.connections[0], site.bound, 2);
    await site.execute(site.bound.first, site.bound);
    const stranger = new HttpClient(site.server.app.addresses.http ?? '', site.server.app.ca);
    await stranger.get('/api/v2/devices');
    stranger.close();
    text = (await http.get('/metrics')).body.toString();
  });
  afterAll(async () => {
    http.close();
    await site.stop();
  });

  it.each([
    ['plantroom_uplinks_total{result="stored"}', 2],
    ['plantroom_uplinks_total{result="failed"}', 0],
    ['plantroom_readings_stored_total', 2],
    ['plantroom_connections{connector="gateway",state="connected"}', 2],
    [
      'plantroom_rpc_requests_total{method="digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice",code="OK",transport="grpc"}',
      3,
    ],
    [
      'plantroom_rpc_requests_total{method="digitaldevice.v2.DigitalDeviceService/ListDigitalDevices",code="UNAUTHENTICATED",transport="http"}',
      1,
    ],
    ['plantroom_rpc_requests_in_flight{method="gateway.v1.GatewayService/Attach",transport="grpc"}', 2],
    [
      'plantroom_rpc_request_duration_seconds_count{method="digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice"}',
      3,
    ],
    ['plantroom_database_up', 1],
    ['plantroom_storage_state{state="ok"}', 1],
    ['plantroom_backup_last_success_timestamp_seconds', 0],
  ])('show %s as %d', (series, value) => {
    expect(parseValue(text, series)).toBe(value);
  });

  it('count an execution in its state', () => {
    const open = ['enqueued', 'in_transit', 'delivered', 'accepted'].map(
      (state) => parseValue(text, `plantroom_executions_active{state="${state}"}`) ?? NaN,
    );
    expect(open.reduce((sum, n) => sum + n)).toBe(1);
  });

  it('contain no organization, device or key', () => {
    const { organizationId, key } = site.server;
    for (const id of [organizationId, key.slice(0, 10), site.bound.id, site.bound.clientDeviceId, site.bound.sensorId])
      expect([id, text.includes(id)]).toEqual([id, false]);
  });

  it('accumulate the buckets as Prometheus requires', () => {
    const counts = [...text.matchAll(/^plantroom_uplink_duration_seconds_bucket\{le="[^"]+"\} (\d+)$/gm)].map(
      ([, count]) => Number(count),
    );
    expect(counts).toEqual(counts.toSorted((one, other) => one - other));
    expect(counts.at(-1)).toBe(2);
  });

  it('are served to many clients at once, for reads only', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, async () => await http.get('/metrics')));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(answers[0]?.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect([(await http.send('POST', '/metrics')).status, (await http.get('/')).status]).toEqual([405, 404]);
    expect([(await http.get('/healthz')).json, (await http.get('/readyz')).json]).toEqual([
      { status: 'ok' },
      { status: 'ready' },
    ]);
  });

  const shown = (): string[] => [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);

  it('are all described in docs/monitor.md with the same words', () => {
    const documented = [
      ...file('docs/monitor.md').matchAll(/^\| `(\S+)` \| (counter|gauge|histogram) \| (.+) \|$/gm),
    ].map(([, name, type, help]) => [name, type, help]);
    const helpTexts = new Map([...text.matchAll(/^# HELP (\S+) (.+)$/gm)].map(([, name, help]) => [name, help]));
    expect(documented).toEqual(shown().map((one) => [...one.split(' '), helpTexts.get(one.split(' ')[0])]));
  });

  it.each(['deploy/grafana/plantroom.json', 'deploy/prometheus/plantroom-alerts.yaml'])(
    'include all that %s uses',
    (path) => {
      const series = new Set(
        shown().flatMap((one) => {
          const [name, type] = one.split(' ') as [string, string];
          return type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
        }),
      );
      const usedSeries = new Set(
        [...file(path).matchAll(/\b(?:plantroom_\w+|process_\w+|nodejs_\w+)/g)].map(([name]) => name),
      );
      expect([...usedSeries].filter((name) => !series.has(name))).toEqual([]);
      expect(usedSeries.size).toBeGreaterThan(10);
    },
  );
});
