import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AuditTrail } from '../../src/access';
import { newestEvents } from '../../src/cli/doctor/auditChecks';
import { backups } from '../../src/cli/doctor/backupChecks';
import type { Finding } from '../../src/cli/doctor/check';
import { machineClock } from '../../src/cli/doctor/clockChecks';
import { summary } from '../../src/cli/doctor/doctor';
import { figures, judged, readFigures } from '../../src/cli/doctor/figureChecks';
import { judged as judgedFileSystem, typeOf } from '../../src/cli/doctor/fileSystem';
import { descriptorLimit, memoryLimit } from '../../src/cli/doctor/limitChecks';
import { openMetrics } from '../../src/cli/doctor/portChecks';
import { server } from '../../src/cli/doctor/serverChecks';
import { storage } from '../../src/cli/doctor/storageChecks';
import { programText, writeRunFile } from '../../src/cli/runFile';
import { loadConfig, type Config } from '../../src/config';
import { lockDataFolder } from '../../src/database';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { backupName } from '../../src/operations';
import { plantroomHere } from '../support/commandInProcess';
import { engines } from '../support/engines';

const DAY = 86_400_000;
const finding = (state: Finding['state']): Finding => ({ check: 'x', state, found: '', mend: '' });
const states = (findings: readonly Finding[]): string[] => findings.map((finding) => `${finding.check}: ${finding.state}`);

describe('doctor and operation', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-doctor-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function configOf(flags: Readonly<Record<string, string>> = {}): Config {
    return loadConfig({ file: false, env: {}, flags: { 'data.dir': folder, 'grpc.listen': '127.0.0.1:0', 'http.listen': 'off', 'metrics.listen': 'off', ...flags } }).config;
  }

  function remember(seen: number): void {
    writeFileSync(join(folder, 'clock.json'), JSON.stringify({ seen, heldMs: 0 }));
  }

  function listens(grpc: string, http: string, metrics = 'off'): () => Config {
    return () => configOf({ 'grpc.listen': grpc, 'http.listen': http, 'metrics.listen': metrics });
  }

  it('sees backups that are off, late, damaged, or on the same disk', async () => {
    const daily = { 'backup.schedule': '30 2 * * *' };
    expect(states(await backups(configOf()))).toEqual(['backup schedule: warn', 'backup folder: warn', 'newest backup: warn']);
    expect(states(await backups(configOf({ 'backup.schedule': '99 2 * * *' })))).toEqual(['backup schedule: fail']);
    mkdirSync(join(folder, 'backups'));
    writeFileSync(join(folder, 'backups', backupName(Date.now() + 400 * DAY, 'site', false)), 'of a clock that was ahead');
    expect((await backups(configOf(daily)))[2]).toMatchObject({ state: 'warn', found: expect.stringContaining('dated in the future') as string });
    const name = join(folder, 'backups', backupName(Date.now() - 3 * DAY, 'site', false));
    writeFileSync(name, 'half a backup');
    expect(states(await backups(configOf(daily)))).toEqual(['backup schedule: ok', 'backup folder: warn', 'newest backup: warn', 'backup content: fail']);
    writeFileSync(join(folder, 'backups', backupName(Date.now() - DAY, 'site', true)), 'encrypted');
    expect(states((await backups(configOf(daily))).slice(2))).toEqual(['newest backup: ok', 'backup content: ok']);
  });

  it('sees a passphrase that is missing, empty or open, and never shows it', async () => {
    const file = join(folder, 'passphrase');
    const look = async (): Promise<Finding[]> => (await backups(configOf({ 'backup.passphraseFile': file }))).filter(({ check }) => check === 'backup passphrase');
    expect(states(await look())).toEqual(['backup passphrase: fail']);
    writeFileSync(file, '\n', { mode: 0o600 });
    expect(states(await look())).toEqual(['backup passphrase: fail']);
    writeFileSync(file, 'hush hush\n');
    expect(states(await look())).toEqual(['backup passphrase: ok']);
    chmodSync(file, 0o644);
    const found = await look();
    expect(found).toMatchObject([{ state: 'warn', mend: `chmod 600 ${file}` }]);
    expect(JSON.stringify(found)).not.toContain('hush');
  });

  it('sees what lies in the data folder: a large log, a reserve that was used, a half restore, what was killed', async () => {
    expect(storage(configOf())).toEqual([]);
    writeFileSync(join(folder, 'plantroom.db'), 'a database');
    expect(states(storage(configOf()))).toEqual(['room for an upgrade: ok', 'room for a backup: ok', 'reserve: ok', 'write-ahead log: ok']);
    writeFileSync(join(folder, 'plantroom.db-wal'), '');
    truncateSync(join(folder, 'plantroom.db-wal'), 300 * 1024 * 1024); // a hole: no room is taken
    writeFileSync(join(folder, '.reserve'), '');
    mkdirSync(join(folder, '.restoring'));
    mkdirSync(join(folder, 'migration-trial-1'));
    expect(states(storage(configOf())).slice(2)).toEqual(['reserve: warn', 'write-ahead log: warn', 'restore: fail']);
    utimesSync(join(folder, 'migration-trial-1'), 1, 1);
    expect(storage(configOf()).at(-1)).toMatchObject({ check: 'leftovers', state: 'warn', found: expect.stringContaining('migration-trial-1') as string });
  });

  it('sees where a database must not lie', () => {
    const mounts = '/dev/sda1 / ext4 rw 0 0\noverlay /var overlay rw 0 0\nnas:/x /mnt/my\\040share nfs4 rw 0 0\ntmpfs /mnt/my\\040share/fast tmpfs rw 0 0\n';
    expect(['/opt/data', '/var/lib/plantroom', '/mnt/my share/data', '/mnt/my share/fast/data', '/various'].map((path) => typeOf(path, mounts))).toEqual(['ext4', 'overlay', 'nfs4', 'tmpfs', 'ext4']);
    expect(['ext4', 'nfs4', 'cifs', 'fuse.sshfs', 'overlay', 'tmpfs'].map((type) => judgedFileSystem(type, configOf()).state)).toEqual(['ok', 'fail', 'fail', 'warn', 'warn', 'warn']);
    expect(judgedFileSystem('nfs4', configOf({ 'database.url': 'postgres://p@localhost/p' })).state).toBe('warn');
  });

  it('sees a clock that is behind what the server has seen', () => {
    expect(states(machineClock(configOf()))).toEqual(['clock: ok']);
    remember(Date.now() - 300 * DAY); // it was off
    expect(states(machineClock(configOf()))).toEqual(['clock: ok']);
    remember(Date.now() + 10 * DAY);
    expect(machineClock(configOf())).toMatchObject([{ state: 'warn', mend: expect.stringContaining('NTP') as string }]);
  });

  it('sees limits that are too tight', () => {
    expect(states([...descriptorLimit(1024, 10), ...descriptorLimit(256, 10), ...descriptorLimit(1024, 1000), ...descriptorLimit(undefined, 1)])).toEqual(['descriptors: ok', 'descriptors: warn', 'descriptors: warn']);
    expect(states([...memoryLimit(256 * 1024 * 1024, 1), ...memoryLimit(128 * 1024 * 1024, 1)])).toEqual(['memory: ok', 'memory: warn']);
  });

  it('reads in the numbers of a server what must be mended', async () => {
    const well = 'plantroom_storage_state{state="ok"} 1\nplantroom_storage_state{state="full"} 0\nplantroom_connections{connector="mqtt",state="connected"} 3\nplantroom_log_lines_total{level="error"} 0\n';
    const ill = `plantroom_storage_state{state="full"} 1\nplantroom_connection_down_seconds{connection="c-1",connector="mqtt"} 1200\nplantroom_executions_open{state="enqueued"} 4\nplantroom_executions_oldest_waiting_seconds 200000\nplantroom_log_lines_total{level="error"} 2\nplantroom_audit_events_lost_total 1\nprocess_max_fds 100\n`;
    expect(states(judged(readFigures(well)))).toEqual(['storing: ok', 'connections: ok', 'executions: ok']);
    expect(states(judged(readFigures(ill)))).toEqual(['storing: fail', 'connections: warn', 'executions: warn', 'audit events: warn', 'log: warn', 'descriptors: warn']);
    const page = createServer((_, response) => response.end(well)).listen(0, '127.0.0.1');
    await new Promise((resolve) => page.once('listening', resolve));
    const address = `0.0.0.0:${(page.address() as AddressInfo).port}`;
    expect(states(await figures(address)).slice(0, 2)).toEqual(['metrics: ok', 'storing: ok']);
    await new Promise((resolve) => page.close(resolve));
    expect(states(await figures(address))).toEqual(['metrics: warn']);
  });

  it('sees a server that does not answer, one whose program was replaced, and metrics that others reach', async () => {
    const lock = await lockDataFolder(folder);
    try {
      const run = { grpc: '127.0.0.1:1', http: '127.0.0.1:1', metrics: null, tls: false, ca: null, organizationId: null, pid: 1, startedAt: '' };
      writeRunFile(folder, { ...run, program: '0.0.1 (old)' });
      expect(states(await server(configOf()))).toEqual(['server: ok', 'program: warn', 'health: fail', 'HTTP: fail', 'metrics: ok']);
      writeRunFile(folder, { ...run, http: null, program: programText() });
      expect(states(await server(configOf()))).toEqual(['server: ok', 'health: fail', 'HTTP: ok', 'metrics: ok']);
    } finally {
      lock.release();
    }
    expect(states([...openMetrics(configOf({ 'metrics.listen': '0.0.0.0:9464' })), ...openMetrics(configOf({ 'metrics.listen': '127.0.0.1:9464' }))])).toEqual(['metrics reach: warn']);
  });

  it('refuses two ports that are one', () => {
    for (const [grpc, http] of [['0.0.0.0:8443', '127.0.0.1:8443'], ['[::]:8443', '0.0.0.0:8443'], ['localhost:8443', '127.0.0.1:8443']] as const) expect(listens(grpc, http)).toThrow(/PLANTROOM_HTTP_LISTEN|http\.listen/);
    expect(listens('0.0.0.0:50051', '0.0.0.0:8443', '127.0.0.1:8443')).toThrow(/PLANTROOM_METRICS_LISTEN=127\.0\.0\.1:9464/);
    for (const [grpc, http] of [['192.0.2.1:8443', '192.0.2.2:8443'], ['0.0.0.0:0', '0.0.0.0:0'], ['0.0.0.0:8443', '[::1]:8443']] as const) expect(listens(grpc, http)).not.toThrow();
  });

  it('sums up, shows first what must be mended, and ends with 1 then', async () => {
    expect([[], ['warn'], ['fail', 'warn', 'warn'], ['fail', 'fail', 'ok']].map((all) => summary(all.map((state) => finding(state as Finding['state']))))).toEqual(['all is well', 'nothing to mend, 1 thing to look at', '1 thing to mend, 2 to look at', '2 things to mend']);
    writeFileSync(join(folder, 'plantroom.db'), 'no database'.repeat(100));
    const env = { PLANTROOM_DATA_DIR: folder, PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: 'off', PLANTROOM_METRICS_LISTEN: 'off' };
    const { code, stdout } = await plantroomHere(['doctor'], env);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^1 thing to mend, \d to look at\n state +check +found +mend\n fail +database /);
    const shown = JSON.parse((await plantroomHere(['doctor', '--json'], env)).stdout) as Finding[];
    expect(shown[0]).toMatchObject({ check: 'database', state: 'fail' });
  });
});

describe.each(engines())('doctor and operation on $name', ({ name, createDatabase }) => {
  it('follows the newest events of the audit trail', async () => {
    const made = await createDatabase();
    const log = silentLogger;
    try {
      const trail = new AuditTrail({ database: made.database, retentionDays: 1095, clock: systemClock, forgetting: systemClock, log });
      await trail.start();
      for (let n = 0; n < 3; n += 1) trail.did('', 'bootstrap', `api-keys/${n}`);
      await trail.close();
      const look = async (): Promise<Finding[]> => await newestEvents(loadConfig({ file: false, env: {}, flags: { 'data.dir': made.dataDir, 'database.url': made.url } }).config);
      expect(await look()).toMatchObject([{ state: 'ok', found: expect.stringMatching(/newest [3-9] events of 1 chains/) as string }]);
      await made.database.db.knex('audit_events').where({ resource: 'api-keys/1' }).update({ resource: 'api-keys/9' });
      expect(await look()).toMatchObject([{ check: 'audit trail', state: 'fail', found: expect.stringContaining('changed') as string }]);
    } finally {
      await made.drop();
    }
  });

  it('says what backups lack', async () => {
    const made = await createDatabase();
    try {
      const { config } = loadConfig({ file: false, env: {}, flags: { 'data.dir': made.dataDir, 'database.url': made.url, 'backup.schedule': '30 2 * * *' } });
      const found = (await backups(config)).filter(({ check }) => check === 'pg_dump');
      expect(found).toHaveLength(name === 'sqlite' ? 0 : 1);
      expect(JSON.stringify(found)).not.toMatch(/:[^:@/"]+@/); // no password
    } finally {
      await made.drop();
    }
  });
});
