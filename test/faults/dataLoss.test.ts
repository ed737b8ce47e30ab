import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plantroom, plantroomServe } from '../support/commandLine';

const ACCEPT = 'exec "$@" --accept-data-loss';

describe('a data folder that lost acknowledged data', () => {
  let dataDir: string;
  let env: Record<string, string>;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'plantroom-loss-'));
    const listen = { PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: 'off', PLANTROOM_TLS_MODE: 'off' };
    env = { PLANTROOM_DATA_DIR: dataDir, ...listen };
  });
  afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

  async function serveAndKill(): Promise<void> {
    await (await plantroomServe(env)).stop('SIGKILL');
  }

  it('is rejected when the write-ahead log of a killed server is missing, until the loss is accepted', async () => {
    await serveAndKill();
    rmSync(join(dataDir, 'plantroom.db-wal'));
    for (const command of [['serve'], ['organizations', 'list'], ['migrate']]) {
      const { code, stderr } = await plantroom(command, env);
      expect({ code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/write-ahead log .* is missing.*--accept-data-loss/) as string,
      });
    }
    const server = await plantroomServe(env, ACCEPT);
    expect(server.stdout()).toContain('database.loss_accepted');
    expect(await server.stop()).toBe(0);
    expect(await (await plantroomServe(env)).stop()).toBe(0);
    expect(existsSync(join(dataDir, 'plantroom.db.open'))).toBe(false);
  });

  it('is not suspected when a command has checkpointed the log of a killed server', async () => {
    await serveAndKill();
    expect(await plantroom(['organizations', 'list'], env)).toMatchObject({ code: 0 });
    expect(existsSync(join(dataDir, 'plantroom.db-wal'))).toBe(false);
    await serveAndKill();
    expect(await (await plantroomServe(env)).stop()).toBe(0); // with the log
  });

  it('is rejected when the database file is missing, until an empty site is accepted', async () => {
    const first = await plantroomServe(env);
    await first.stop();
    for (const name of readdirSync(dataDir).filter((name) => name.startsWith('plantroom.db')))
      rmSync(join(dataDir, name));
    for (const command of [['serve'], ['keys', 'list'], ['migrate']]) {
      const { code, stderr } = await plantroom(command, env);
      expect({ code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/database file .* is missing.*--accept-data-loss/) as string,
      });
      expect(existsSync(join(dataDir, 'plantroom.db'))).toBe(false);
    }
    const server = await plantroomServe(env, ACCEPT);
    expect(server.stderr()).toContain('plr_'); // a new first key
    expect(await server.stop()).toBe(0);
  });
});
