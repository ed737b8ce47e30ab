import { chmodSync, mkdirSync, mkdtempSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AuditLog } from '../../src/access';
import { checkAuditTrail } from '../../src/cli/doctor/auditChecks';
import { checkBackups } from '../../src/cli/doctor/backupChecks';
import type { Finding } from '../../src/cli/doctor/check';
import { checkClock } from '../../src/cli/doctor/clockChecks';
import { formatSummary } from '../../src/cli/doctor/doctor';
import { checkMetrics, judgeMetrics, parseMetrics } from '../../src/cli/doctor/metricChecks';
import { judgeFileSystem as judgedFileSystem, findFileSystemType } from '../../src/cli/doctor/fileSystem';
import { checkDescriptors, checkMemory } from '../../src/cli/doctor/limitChecks';
import { checkMetricsAccess } from '../../src/cli/doctor/portChecks';
import { checkServer } from '../../src/cli/doctor/serverChecks';
import { checkStorage } from '../../src/cli/doctor/storageChecks';
import { formatProgram, writeRunFile } from '../../src/cli/runFile';
import { loadConfig, type Config } from '../../src/config';
import { lockDataFolder } from '../../src/database';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { formatBackupName } from '../../src/backup';
import { plantroomHere } from '../support/commandInProcess';
import { engines } from '../support/engines';

const DAY = 86_400_000;
const finding = (state: Finding['state']): Finding => ({ check: 'x', state, found: '', fix: '' });
const states = (findings: readonly Finding[]): string[] =>
  findings.map((finding) => `${finding.check}: ${finding.state}`);

describe('doctor: operation checks', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-doctor-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function getConfig(flags: Readonly<Record<string, string>> = {}): Config {
    return loadConfig({
      file: false,
      env: {},
      flags: {
        'data.dir': folder,
        'grpc.listen': '127.0.0.1:0',
        'http.listen': 'off',
        'metrics.listen': 'off',
        ...flags,
      },
    }).config;
  }

  function remember(seen: number): void {
    writeFileSync(join(folder, 'clock.json'), JSON.stringify({ seen, heldMs: 0 }));
  }

  function listens(grpc: string, http: string, metrics = 'off'): () => Config {
    return () => getConfig({ 'grpc.listen': grpc, 'http.listen': http, 'metrics.listen': metrics });
  }

  it('finds backups that are disabled, late, corrupt, or on the same disk', async () => {
    const daily = { 'backup.schedule': '30 2 * * *' };
    expect(states(await checkBackups(getConfig()))).toEqual([
      'backup schedule: warn',
      'backup folder: warn',
      'newest backup: warn',
    ]);
    mkdirSync(join(folder, 'backups'));
    writeFileSync(
      join(folder, 'backups', formatBackupName(Date.now() + 400 * DAY, 'site', false)),
      'of a clock that was ahead',
    );
    expect((await checkBackups(getConfig(daily)))[2]).toMatchObject({
      state: 'warn',
      found: expect.stringContaining('dated in the future') as string,
    });
    const name = join(folder, 'backups', formatBackupName(Date.now() - 3 * DAY, 'site', false));
    writeFileSync(name, 'half a backup');
    expect(states(await checkBackups(getConfig(daily)))).toEqual([
      'backup schedule: ok',
      'backup folder: warn',
      'newest backup: warn',
      'backup content: fail',
    ]);
    writeFileSync(join(folder, 'backups', formatBackupName(Date.now() - DAY, 'site', true)), 'encrypted');
    expect(states((await checkBackups(getConfig(daily))).slice(2))).toEqual([
      'newest backup: ok',
      'backup content: ok',
    ]);
  });

  it('finds a passphrase that is missing, empty or readable by others, and never prints it', async () => {
    const file = join(folder, 'passphrase');
    const listFindings = async (): Promise<Finding[]> =>
      (await checkBackups(getConfig({ 'backup.passphraseFile': file }))).filter(
        ({ check }) => check === 'backup passphrase',
      );
    expect(states(await listFindings())).toEqual(['backup passphrase: fail']);
    writeFileSync(file, '\n', { mode: 0o600 });
    expect(states(await listFindings())).toEqual(['backup passphrase: fail']);
    writeFileSync(file, 'hush hush\n');
    expect(states(await listFindings())).toEqual(['backup passphrase: ok']);
    chmodSync(file, 0o644);
    const found = await listFindings();
    expect(found).toMatchObject([{ state: 'warn', fix: `chmod 600 ${file}` }]);
    expect(JSON.stringify(found)).not.toContain('hush');
  });

  it('finds leftovers in the data folder: a large log, a used reserve, an incomplete restore, files of killed processes', async () => {
    expect(checkStorage(getConfig())).toEqual([]);
    writeFileSync(join(folder, 'plantroom.db'), 'a database');
    expect(states(checkStorage(getConfig()))).toEqual([
      'space for an upgrade: ok',
      'space for a backup: ok',
      'reserve: ok',
      'write-ahead log: ok',
    ]);
    writeFileSync(join(folder, 'plantroom.db-wal'), '');
    truncateSync(join(folder, 'plantroom.db-wal'), 300 * 1024 * 1024); // A sparse file uses no disk space.
    writeFileSync(join(folder, '.reserve'), '');
    mkdirSync(join(folder, '.restoring'));
    mkdirSync(join(folder, 'migration-trial-1'));
    expect(states(checkStorage(getConfig())).slice(2)).toEqual([
      'reserve: warn',
      'write-ahead log: warn',
      'restore: fail',
    ]);
    utimesSync(join(folder, 'migration-trial-1'), 1, 1);
    expect(checkStorage(getConfig()).at(-1)).toMatchObject({
      check: 'leftovers',
      state: 'warn',
      found: expect.stringContaining('migration-trial-1') as string,
    });
  });

  it('finds a database in an unsuitable location', () => {
    const mounts =
      '/dev/sda1 / ext4 rw 0 0\noverlay /var overlay rw 0 0\nnas:/x /mnt/my\\040share nfs4 rw 0 0\ntmpfs /mnt/my\\040share/fast tmpfs rw 0 0\n';
    expect(
      ['/opt/data', '/var/lib/plantroom', '/mnt/my share/data', '/mnt/my share/fast/data', '/various'].map((path) =>
        findFileSystemType(path, mounts),
      ),
    ).toEqual(['ext4', 'overlay', 'nfs4', 'tmpfs', 'ext4']);
    expect(
      ['ext4', 'nfs4', 'cifs', 'fuse.sshfs', 'overlay', 'tmpfs'].map(
        (type) => judgedFileSystem(type, getConfig()).state,
      ),
    ).toEqual(['ok', 'fail', 'fail', 'warn', 'warn', 'warn']);
    expect(judgedFileSystem('nfs4', getConfig({ 'database.url': 'postgres://p@localhost/p' })).state).toBe('warn');
  });

  it('finds a clock that is behind the last recorded time', () => {
    expect(states(checkClock(getConfig()))).toEqual(['clock: ok']);
    remember(Date.now() - 300 * DAY); // The server was not running for a long time.
    expect(states(checkClock(getConfig()))).toEqual(['clock: ok']);
    remember(Date.now() + 10 * DAY);
    expect(checkClock(getConfig())).toMatchObject([{ state: 'warn', fix: expect.stringContaining('NTP') as string }]);
  });

  it('finds limits that are too low', () => {
    expect(
      states([
        ...checkDescriptors(1024, 10),
        ...checkDescriptors(256, 10),
        ...checkDescriptors(1024, 1000),
        ...checkDescriptors(undefined, 1),
      ]),
    ).toEqual(['descriptors: ok', 'descriptors: warn', 'descriptors: warn']);
    expect(states([...checkMemory(256 * 1024 * 1024, 1), ...checkMemory(128 * 1024 * 1024, 1)])).toEqual([
      'memory: ok',
      'memory: warn',
    ]);
  });

  it('finds problems in the metrics of a server', async () => {
    const healthyMetrics =
      'plantroom_storage_state{state="ok"} 1\nplantroom_storage_state{state="full"} 0\nplantroom_connections{connector="mqtt",state="connected"} 3\nplantroom_log_messages_total{level="error"} 0\n';
    const unhealthyMetrics = `plantroom_storage_state{state="full"} 1\nplantroom_connection_down_seconds{connection="c-1",connector="mqtt"} 1200\nplantroom_executions_active{state="enqueued"} 4\nplantroom_execution_queue_oldest_age_seconds 200000\nplantroom_log_messages_total{level="error"} 2\nplantroom_audit_events_lost_total 1\nprocess_max_fds 100\n`;
    expect(states(judgeMetrics(parseMetrics(healthyMetrics)))).toEqual([
      'storing: ok',
      'connections: ok',
      'executions: ok',
    ]);
    expect(states(judgeMetrics(parseMetrics(unhealthyMetrics)))).toEqual([
      'storing: fail',
      'connections: warn',
      'executions: warn',
      'audit events: warn',
      'log: warn',
      'descriptors: warn',
    ]);
    const page = createServer((_, response) => response.end(healthyMetrics)).listen(0, '127.0.0.1');
    await new Promise((resolve) => page.once('listening', resolve));
    const address = `0.0.0.0:${(page.address() as AddressInfo).port}`;
    expect(states(await checkMetrics(address)).slice(0, 2)).toEqual(['metrics: ok', 'storing: ok']);
    await new Promise((resolve) => page.close(resolve));
    expect(states(await checkMetrics(address))).toEqual(['metrics: warn']);
  });

  it('finds a server that does not respond, one whose program was replaced, and metrics that are open to others', async () => {
    const lock = await lockDataFolder(folder);
    try {
      const run = {
        grpc: '127.0.0.1:1',
        http: '127.0.0.1:1',
        metrics: null,
        tls: false,
        ca: null,
        organizationId: null,
        pid: 1,
        startedAt: '',
      };
      writeRunFile(folder, { ...run, program: '0.0.1 (old)' });
      expect(states(await checkServer(getConfig()))).toEqual([
        'server: ok',
        'program: warn',
        'health: fail',
        'HTTP: fail',
        'metrics: ok',
      ]);
      writeRunFile(folder, { ...run, http: null, program: formatProgram() });
      expect(states(await checkServer(getConfig()))).toEqual(['server: ok', 'health: fail', 'HTTP: ok', 'metrics: ok']);
    } finally {
      lock.release();
    }
    expect(
      states([
        ...checkMetricsAccess(getConfig({ 'metrics.listen': '0.0.0.0:9464' })),
        ...checkMetricsAccess(getConfig({ 'metrics.listen': '127.0.0.1:9464' })),
      ]),
    ).toEqual(['metrics reach: warn']);
  });

  it('rejects two listeners on the same port', () => {
    for (const [grpc, http] of [
      ['0.0.0.0:8443', '127.0.0.1:8443'],
      ['[::]:8443', '0.0.0.0:8443'],
      ['localhost:8443', '127.0.0.1:8443'],
    ] as const)
      expect(listens(grpc, http)).toThrow(/PLANTROOM_HTTP_LISTEN|http\.listen/);
    expect(listens('0.0.0.0:50051', '0.0.0.0:8443', '127.0.0.1:8443')).toThrow(
      /PLANTROOM_METRICS_LISTEN=127\.0\.0\.1:9464/,
    );
    for (const [grpc, http] of [
      ['192.0.2.1:8443', '192.0.2.2:8443'],
      ['0.0.0.0:0', '0.0.0.0:0'],
      ['0.0.0.0:8443', '[::1]:8443'],
    ] as const)
      expect(listens(grpc, http)).not.toThrow();
  });

  it('prints a summary, shows errors first, and exits with 1 if there are any', async () => {
    expect(
      [[], ['warn'], ['fail', 'warn', 'warn'], ['fail', 'fail', 'ok']].map((all) =>
        formatSummary(all.map((state) => finding(state as Finding['state']))),
      ),
    ).toEqual([
      'no problems, no warnings',
      'no problems, 1 warning',
      '1 problem, 2 warnings',
      '2 problems, no warnings',
    ]);
    writeFileSync(join(folder, 'plantroom.db'), 'no database'.repeat(100));
    const env = {
      PLANTROOM_DATA_DIR: folder,
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: 'off',
      PLANTROOM_METRICS_LISTEN: 'off',
    };
    const { code, stdout } = await plantroomHere(['doctor'], env);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^the server is stopped; 1 problem, \d warnings\n state +check +found +fix\n fail +database /,
    );
    const shown = JSON.parse((await plantroomHere(['doctor', '--json'], env)).stdout) as Finding[];
    expect(shown[0]).toMatchObject({ check: 'database', state: 'fail' });
  });
});

describe.each(engines())('doctor: operation checks on $name', ({ name, createDatabase }) => {
  it('verifies the newest events of the audit trail', async () => {
    const testDatabase = await createDatabase();
    const log = silentLogger;
    try {
      const trail = new AuditLog({
        database: testDatabase.database,
        retentionDays: 1095,
        clock: systemClock,
        retentionClock: systemClock,
        log,
      });
      await trail.start();
      for (let n = 0; n < 3; n += 1) trail.recordServerEvent('', 'bootstrap', `api-keys/${n}`);
      await trail.close();
      const listFindings = async (): Promise<Finding[]> =>
        await checkAuditTrail(
          loadConfig({
            file: false,
            env: {},
            flags: { 'data.dir': testDatabase.dataDir, 'database.url': testDatabase.url },
          }).config,
        );
      expect(await listFindings()).toMatchObject([
        { state: 'ok', found: expect.stringMatching(/newest [3-9] events of 1 chain /) as string },
      ]);
      await testDatabase.database.db
        .knex('audit_events')
        .where({ resource: 'api-keys/1' })
        .update({ resource: 'api-keys/9' });
      expect(await listFindings()).toMatchObject([
        { check: 'audit trail', state: 'fail', found: expect.stringContaining('changed') as string },
      ]);
    } finally {
      await testDatabase.drop();
    }
  });

  it('reports what backups do not contain', async () => {
    const testDatabase = await createDatabase();
    try {
      const { config } = loadConfig({
        file: false,
        env: {},
        flags: { 'data.dir': testDatabase.dataDir, 'database.url': testDatabase.url, 'backup.schedule': '30 2 * * *' },
      });
      const found = (await checkBackups(config)).filter(({ check }) => check === 'pg_dump');
      expect(found).toHaveLength(name === 'sqlite' ? 0 : 1);
      expect(JSON.stringify(found)).not.toMatch(/:[^:@/"]+@/); // No finding contains a password.
    } finally {
      await testDatabase.drop();
    }
  });
});
