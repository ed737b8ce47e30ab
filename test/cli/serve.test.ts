import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { plantroom, plantroomServe, type ServeProcess } from '../support/commandLine';

describe('plantroom serve', () => {
  let folder: string;
  let data: string;
  let env: Record<string, string>;
  let running: ServeProcess[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-serve-'));
    data = join(folder, 'data');
    env = {
      PLANTROOM_DATA_DIR: data,
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_TLS_MODE: 'off',
    };
    running = [];
  });
  afterEach(async () => {
    for (const server of running)
      if (server.child.exitCode === null && server.child.signalCode === null) await server.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  async function serve(more: Readonly<Record<string, string>> = {}): Promise<ServeProcess> {
    const server = await plantroomServe({ ...env, ...more });
    running.push(server);
    return server;
  }

  it('shows the first key once, prints its addresses, and shuts down cleanly', async () => {
    const first = await serve({ PLANTROOM_TLS_MODE: 'auto' });
    expect(first.ready).toMatchObject({
      grpc: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      http: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      tls: true,
      ca: join(data, 'tls', 'ca.pem'),
    });
    expect(JSON.parse(readFileSync(join(data, 'run.json'), 'utf8'))).toMatchObject({
      grpc: first.ready['grpc'],
      http: first.ready['http'],
      tls: true,
      ca: join(data, 'tls', 'ca.pem'),
      pid: first.child.pid,
      startedAt: expect.any(String),
    });
    expect(first.stderr()).toMatch(/API key +plr_[0-9A-Za-z]{49}\n/);
    expect(first.stderr()).toContain(`grpcurl -cacert ${join(data, 'tls', 'ca.pem')} -H 'x-api-key: plr_`);
    expect(first.stderr()).toContain(`https://${String(first.ready['http'])}/api/v2/who-am-i`);
    expect(first.stderr()).toContain(`https://${String(first.ready['http'])}/docs/`);
    expect(await first.stop()).toBe(0);
    expect(existsSync(join(data, 'run.json'))).toBe(false);
    const second = await serve();
    expect(second.stderr()).not.toContain('plr_');
    expect(await second.stop('SIGINT')).toBe(0);
  });

  it('exits although a frozen client keeps its connection open', async () => {
    const server = await serve({ PLANTROOM_LIMITS_SHUTDOWN_TIMEOUT_MS: '500' });
    const [host, port] = String(server.ready['grpc']).split(':');
    const client = connect({ host: String(host), port: Number(port), allowHalfOpen: true }).resume();
    client.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');
    await once(client, 'data');
    try {
      expect(await server.stop()).toBe(0);
      expect(server.stdout()).toContain('"server.stopped"');
    } finally {
      client.destroy();
    }
  });

  it('writes the first key to a file that only this user can read', async () => {
    const file = join(folder, 'key.json');
    const server = await serve({ PLANTROOM_BOOTSTRAP_KEY_FILE: file });
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      organizationId: expect.any(String),
      apiKey: expect.stringMatching(/^plr_/),
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(server.stderr()).toBe('');
    const before = readFileSync(file, 'utf8');
    await server.stop();
    await serve({ PLANTROOM_BOOTSTRAP_KEY_FILE: file });
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(readdirSync(folder).toSorted()).toEqual(['data', 'key.json']);
  });

  it('writes the ready line at every log level', async () => {
    const server = await serve({ PLANTROOM_LOG_LEVEL: 'error' });
    expect(server.ready).toMatchObject({ event: 'server.ready', tls: false, ca: null });
    expect(server.stderr()).toContain('grpcurl -plaintext');
  });

  it('rejects a port that is in use, and does not lose the first key', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const listen = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    try {
      const refused = await plantroom(['serve'], { ...env, PLANTROOM_GRPC_LISTEN: listen });
      expect(refused).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          new RegExp(`^plantroom: cannot listen on ${listen} \\(PLANTROOM_GRPC_LISTEN\\): [^\\n]+\\n$`),
        ),
      });
    } finally {
      other.close();
    }
    expect((await serve()).stderr()).toContain('API key');
  });

  it('rejects a data folder in use by another server, and accepts the folder of a killed server', async () => {
    const first = await serve();
    const refused = await plantroom(['serve'], env);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        new RegExp(
          `^plantroom: the data folder ${data} is used by another server \\(process ${first.child.pid}, [^\\n]+\\n$`,
        ),
      ),
    });
    expect(existsSync(join(data, 'run.json'))).toBe(true);
    await first.stop('SIGKILL');
    await serve();
  });

  it('rejects a folder that is not writable', async () => {
    writeFileSync(join(folder, 'file'), '');
    const refused = await plantroom(['serve'], { ...env, PLANTROOM_DATA_DIR: join(folder, 'file', 'data') });
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^plantroom: the data folder [^\n]+ cannot be written [^\n]+\n$/),
    });
  });

  (existsSync('/proc') ? it : it.skip)(
    'rejects a folder in a file system that supports no new folders, instead of retrying endlessly',
    () => {
      const main = join(__dirname, '..', '..', 'dist', 'main.js');
      const refused = spawnSync(process.execPath, [main, 'serve'], {
        env: { ...env, PLANTROOM_DATA_DIR: '/proc/foo/bar' },
        timeout: 150_000,
        killSignal: 'SIGKILL',
        encoding: 'utf8',
      });
      expect(refused).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(
          /^plantroom: the data folder \/proc\/foo\/bar cannot be written \(E[A-Z]+\)[^\n]+\n$/,
        ),
      });
    },
  );

  it.each(['data', 'data/server.lock', 'data/plantroom.db'])(
    'exits immediately when %s is moved away at run time',
    async (name) => {
      const server = await serve();
      renameSync(join(folder, name), join(folder, 'moved'));
      const [code] = (await once(server.child, 'close')) as [number | null];
      expect(code).toBe(1);
      expect(server.stdout()).toMatch(/"event":"server\.data_dir_lost"/);
      expect(server.stdout()).not.toContain('server.stopping');
    },
  );

  it('rejects a key file that is not writable, before it creates the key', async () => {
    const refused = await plantroom(['serve'], {
      ...env,
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'none', 'key.json'),
    });
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^plantroom: the key file [^\n]+ cannot be written [^\n]+\n$/),
    });
    expect((await serve()).stderr()).toContain('API key');
  });

  it('shuts down and fails if it cannot record its addresses', async () => {
    mkdirSync(join(data, 'run.json'), { recursive: true });
    const failed = await plantroom(['serve'], env);
    expect(failed).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /API key +plr_[^]*\nplantroom: [^\n]*run\.json cannot be written \(EISDIR\)[^\n]+\n$/,
      ),
    });
    expect(failed.stdout).not.toContain('server.ready');
    rmSync(join(data, 'run.json'), { recursive: true });
    expect(readdirSync(data).filter((name) => name.startsWith('.run'))).toEqual([]);
    await serve(); // The port and the folder are free.
  });

  it('creates no first key if its file exists, and creates it once the file is removed', async () => {
    const file = join(folder, 'key.json');
    writeFileSync(file, 'the key of another installation');
    const failed = await plantroom(['serve'], { ...env, PLANTROOM_BOOTSTRAP_KEY_FILE: file });
    expect(failed).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^plantroom: the key file [^\n]+ already exists and is not overwritten, so no first key was created: [^\n]+\n$/,
      ),
    });
    expect(readFileSync(file, 'utf8')).toBe('the key of another installation');
    rmSync(file);
    const server = await serve({ PLANTROOM_BOOTSTRAP_KEY_FILE: file });
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ apiKey: expect.stringMatching(/^plr_/) as string });
    expect(server.stderr()).toBe('');
    expect(readdirSync(folder).toSorted()).toEqual(['data', 'key.json']);
  });

  it('rejects a database of a newer version', async () => {
    await plantroom(['migrate'], env);
    const database = new Database(join(data, 'plantroom.db'));
    database
      .prepare("insert into schema_migrations select '9999_from_the_future', max(applied_at) from schema_migrations")
      .run();
    database.close();
    const refused = await plantroom(['serve'], env);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^plantroom: the database was made by a newer version [^\n]*9999_from_the_future[^\n]*\n$/,
      ),
    });
  });
});
