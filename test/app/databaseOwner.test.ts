import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { type App, startApp } from '../../src/app';
import { loadConfig } from '../../src/config';
import { OWNER_LOCK } from '../../src/database/engines/postgresOwnership';
import { systemClock } from '../../src/kernel/clock';
import { plantroomServe } from '../support/commandLine';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';

const [, postgres] = engines();
const HOLDER = "select pid from pg_locks where locktype = 'advisory' and objid = $1 and granted and database = (select oid from pg_database where datname = current_database())";

describe('one server on a PostgreSQL database', () => {
  let db: TestDatabase;
  let folders: string[];
  let apps: App[];
  let administrator: Client;
  beforeEach(async () => {
    db = await (postgres as NonNullable<typeof postgres>).createDatabase();
    folders = [];
    apps = [];
    administrator = new Client({ connectionString: db.url });
    await administrator.connect();
  });
  afterEach(async () => {
    for (const app of apps) await app.stop();
    await administrator.end();
    await db.drop();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  function newFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-owner-'));
    folders.push(folder);
    return folder;
  }

  async function start(log = new MemoryLog()): Promise<App> {
    const flags = { 'data.dir': newFolder(), 'grpc.listen': '127.0.0.1:0', 'http.listen': '127.0.0.1:0', 'tls.mode': 'off', 'metrics.listen': 'off', 'database.reserveMib': '0', 'database.url': db.url, 'limits.stopMs': '2000' };
    const app = await startApp(loadConfig({ file: false, env: {}, flags }).config, { log, clock: systemClock });
    apps.push(app);
    return app;
  }

  async function holder(): Promise<number | undefined> {
    return (await administrator.query<{ pid: number }>(HOLDER, [OWNER_LOCK])).rows[0]?.pid;
  }

  /** Another server that gets the lock in the moment in which the one that has it loses its connection. */
  async function seize(): Promise<Client> {
    const pid = await holder();
    expect(pid).toBeDefined();
    const other = new Client({ connectionString: db.url });
    await other.connect();
    const { rows } = await other.query<{ pid: number }>('select pg_backend_pid() as pid');
    const taken = other.query('select pg_advisory_lock($1)', [OWNER_LOCK]);
    const waits = async (): Promise<boolean> => (await administrator.query('select 1 from pg_locks where pid = $1 and not granted', [rows[0]?.pid])).rows.length > 0;
    while (!(await waits()));
    await administrator.query('select pg_terminate_backend($1)', [pid]);
    await taken;
    return other;
  }

  it('refuses a second server until the first has stopped', async () => {
    const first = await start();
    await expect(start()).rejects.toMatchObject({ kind: 'conflict', reason: 'database_in_use' });
    await first.stop();
    await expect(start()).resolves.toBeDefined();
  });

  it('takes the database again when its connection breaks', async () => {
    await start();
    const before = await holder();
    await administrator.query('select pg_terminate_backend($1)', [before]);
    let after = await holder();
    while (after === undefined || after === before) after = await holder();
    await expect(start()).rejects.toMatchObject({ reason: 'database_in_use' });
  });

  it('says that the database is lost when another server has it', async () => {
    const log = new MemoryLog();
    const app = await start(log);
    const other = await seize();
    expect(await app.databaseLost).toMatchObject({ reason: 'database_in_use' });
    expect(log.of('database.ownership_lost')).toHaveLength(1);
    await other.end();
  });

  it('ends the process then, with a failure', async () => {
    const env = { PLANTROOM_DATA_DIR: newFolder(), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_TLS_MODE: 'off', PLANTROOM_DATABASE_URL: db.url };
    const server = await plantroomServe(env);
    const ended = once(server.child, 'exit');
    const other = await seize();
    expect(await ended).toEqual([1, null]);
    expect(server.stderr()).toContain('another server uses the database');
    await other.end();
  });
});
