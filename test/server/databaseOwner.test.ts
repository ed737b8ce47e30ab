import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { type RunningServer, startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import { ACQUIRE_LOCK } from '../../src/database/engines/databaseLease';
import { systemClock } from '../../src/kernel/clock';
import { TcpProxy } from '../brokers/tcpProxy';
import { plantroomServe } from '../support/commandLine';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { HttpClient, type HttpAnswer } from '../support/http';

const [, postgres] = engines();
const LEASE_MS = 1000;
/** Waiting for the database without a limit took 15 s; on an idle machine a stop takes two. */
const DEVICES = '/digitaldevice.v2.DigitalDeviceService';

interface Server {
  readonly app: RunningServer;
  readonly log: MemoryLog;
  /** Creates a device. */
  create(name: string): Promise<HttpAnswer>;
  get(path: string): Promise<HttpAnswer>;
}

/** Retries a repeatable call until it succeeds; every failure before that must be `database_unavailable`. */
async function createAtLast(server: Server, name: string): Promise<void> {
  for (;;) {
    const { status, json } = await server.create(name);
    if (status === 200) return;
    expect(json).toMatchObject({ error: { code: 'database_unavailable', status: 'UNAVAILABLE' } });
  }
}

describe('one server on a PostgreSQL database', () => {
  let db: TestDatabase;
  let folders: string[];
  let apps: RunningServer[];
  let clients: HttpClient[];
  let administrator: Client;
  let proxy: TcpProxy;
  let key: { readonly organizationId: string; readonly key: string };
  beforeEach(async () => {
    db = await (postgres as NonNullable<typeof postgres>).createDatabase();
    [folders, apps, clients] = [[], [], []];
    administrator = new Client({ connectionString: db.url });
    await administrator.connect();
    proxy = await TcpProxy.start(Number(new URL(db.url).port));
  });
  afterEach(async () => {
    for (const client of clients) client.close();
    await Promise.all(apps.map(async (app) => await app.stop()));
    await proxy.stop();
    await administrator.end();
    await db.drop();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  function newFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-owner-'));
    folders.push(folder);
    return folder;
  }

  function throughProxy(): string {
    const url = new URL(db.url);
    url.port = String(proxy.port);
    return url.href;
  }

  async function start(url = db.url): Promise<Server> {
    const flags = {
      'data.dir': newFolder(),
      'grpc.listen': '127.0.0.1:0',
      'http.listen': '127.0.0.1:0',
      'tls.mode': 'off',
      'metrics.listen': 'off',
      'database.diskReserveMib': '0',
      'database.url': url,
      'database.leaseMs': String(LEASE_MS),
      'limits.shutdownTimeoutMs': '2000',
    };
    const log = new MemoryLog();
    const app = await startServer(loadConfig({ file: false, env: {}, flags }).config, { log, clock: systemClock });
    apps.push(app);
    if (app.bootstrapped) key = { organizationId: app.bootstrapped.organization.id, key: app.bootstrapped.key };
    return { app, log, ...calls(app.addresses.http as string) };
  }

  function calls(address: string): Pick<Server, 'create' | 'get'> {
    const client = new HttpClient(address, undefined);
    clients.push(client);
    return {
      create: async (name) => {
        const headers = { 'x-api-key': key.key, 'x-organization-id': key.organizationId };
        return await client.send('POST', `${DEVICES}/CreateDigitalDevice`, { headers, body: { name } });
      },
      get: async (path) => await client.get(path),
    };
  }

  const lease = async (): Promise<{ epoch: number; holder: string }> => {
    const { rows } = await administrator.query<{ epoch: string; holder: string }>(
      "select epoch, holder from leases where kind = 'database'",
    );
    return { epoch: Number(rows[0]?.epoch), holder: rows[0]?.holder ?? '' };
  };
  const endAllConnections = async (): Promise<void> => {
    const ownSessions = "datname = current_database() and application_name ~ '^plantroom (server|lease)'";
    await administrator.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${ownSessions}`);
  };
  const names = async (): Promise<string[]> => {
    const { rows } = await administrator.query<{ name: string }>('select name from digital_devices order by name');
    return rows.map(({ name }) => name);
  };

  it('rejects a second server and names the owner of the database until the first server has stopped', async () => {
    const first = await start();
    const message = new RegExp(`process ${process.pid} on ${hostname()}, version .*, since 20.*expires in 1 s`);
    await expect(start()).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'database_in_use',
      message: expect.stringMatching(message) as string,
    });
    await first.app.stop();
    const second = await start();
    expect(second.log.of('database.lease_waiting')).toEqual([]); // stopping releases the lease
  });

  it('survives repeated cuts of all its connections and keeps owning the database', async () => {
    const server = await start();
    for (let cut = 1; cut <= 5; cut += 1) {
      await endAllConnections();
      await createAtLast(server, `Valve ${cut}`);
    }
    await server.log.until('database.lease_renewed');
    expect(await lease()).toMatchObject({ epoch: 1 });
    expect(await names()).toEqual(['Valve 1', 'Valve 2', 'Valve 3', 'Valve 4', 'Valve 5']);
    await expect(start()).rejects.toMatchObject({ reason: 'database_in_use' });
  });

  it('recovers when only its own side of the connections was cut and the database considers the old ones open', async () => {
    const server = await start(throughProxy());
    for (let cut = 1; cut <= 5; cut += 1) {
      proxy.cut('client');
      await createAtLast(server, `Valve ${cut}`);
    }
    await server.log.until('database.lease_renewed');
    expect(await lease()).toMatchObject({ epoch: 1 });
    proxy.cut('client');
    await server.app.stop();
    await expect(start()).resolves.toBeDefined(); // PostgreSQL may still hold the previous session
  });

  it('answers within a time limit while the database does not respond, reports it, and serves again after recovery', async () => {
    const server = await start(throughProxy());
    await createAtLast(server, 'before');
    proxy.swallow();
    expect((await server.create('lost')).json).toMatchObject({ error: { code: 'database_unavailable' } });
    expect(await server.get('/readyz')).toMatchObject({ status: 503, json: { status: 'database_unavailable' } });
    await server.log.until('database.unreachable');
    proxy.restore();
    await server.log.until('database.reached');
    await createAtLast(server, 'after');
    expect(await lease()).toMatchObject({ epoch: 1 });
    expect(await names()).toEqual(['after', 'before']);
  });

  it('cancels a statement whose connection was silently dropped while new connections work', async () => {
    const server = await start(throughProxy());
    await createAtLast(server, 'before');
    proxy.swallow();
    const lost = server.create('lost');
    await server.log.until('database.lease_interrupted');
    proxy.restore();
    expect((await lost).json).toMatchObject({ error: { code: 'database_unavailable' } });
    await createAtLast(server, 'after');
  });

  it('stops while the database does not respond', async () => {
    const server = await start(throughProxy());
    await createAtLast(server, 'before');
    proxy.swallow();
    await server.app.stop();
    // The lease either expired or was waited for.
    expect((await start()).log.of('database.lease_waiting').length).toBeLessThanOrEqual(1);
  });

  it('refuses to start next to a server of an older version that holds the old lock', async () => {
    await administrator.query('select pg_advisory_lock($1)', [ACQUIRE_LOCK]);
    await expect(start()).rejects.toMatchObject({
      reason: 'database_in_use',
      message: expect.stringMatching(/version 0\.2 or older .*backend \d+ from .* since 20/) as string,
    });
  });

  it('stops a server that was suspended past its lease and prevents it from storing anything', async () => {
    const env = {
      PLANTROOM_DATA_DIR: newFolder(),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_DATABASE_URL: db.url,
      PLANTROOM_DATABASE_LEASE_MS: String(LEASE_MS),
    };
    await (await start()).app.stop(); // creates the key
    const sleeper = await plantroomServe(env);
    const ended = once(sleeper.child, 'exit');
    const { create } = calls(String(sleeper.ready['http']));
    expect(await create('before')).toMatchObject({ status: 200 });
    sleeper.child.kill('SIGSTOP');
    const lateRequests = Promise.allSettled(
      Array.from({ length: 8 }, async (_, index) => await create(`late ${index}`)),
    );
    const successor = await start();
    expect(successor.log.of('database.lease_waiting')).toHaveLength(1);
    sleeper.child.kill('SIGCONT');
    expect(await ended).toEqual([1, null]);
    expect(sleeper.stderr()).toContain('another server uses the database');
    for (const answer of await lateRequests)
      expect(answer.status === 'rejected' || answer.value.status === 503).toBe(true);
    expect(await names()).toEqual(['before']);
    expect(await successor.create('after')).toMatchObject({ status: 200 });
    expect(await lease()).toMatchObject({ epoch: 3 });
  });
});
