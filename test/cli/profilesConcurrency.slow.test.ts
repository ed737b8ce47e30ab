import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plantroom, plantroomServe, type Ended, type ServeProcess } from '../support/commandLine';
import { HttpClient } from '../support/http';
import { writeCheckout, PROFILES_PER_VENDOR } from '../support/manyProfiles';
import { as } from '../support/testApp';

const VENDORS = 40;

describe('plantroom profiles, beside a running server', () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServeProcess;
  let http: HttpClient;
  let device: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
    env = {
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json'),
    };
    server = await plantroomServe(env);
    const { apiKey, organizationId } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as {
      apiKey: string;
      organizationId: string;
    };
    http = new HttpClient(String(server.ready['http']), undefined, as(apiKey, organizationId));
    device = ((await http.send('POST', '/api/v2/devices', { body: { name: 'Device' } })).json as { id: string }).id;
    writeCheckout(join(folder, 'copy'), { layout: 'lorawan-devices', vendors: VENDORS });
  });
  afterAll(async () => {
    http.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /**
   * Runs a command while the server continuously updates and reads a device. Returns how the command exited and the
   * statuses of the calls.
   */
  async function runWithTraffic(...args: string[]): Promise<{ ended: Ended; statuses: ReadonlySet<number> }> {
    const statuses = new Set<number>();
    const state = { calls: 0, isRunning: true };
    const running = plantroom(['profiles', ...args, '--json'], env).finally(() => (state.isRunning = false));
    const callers = [0, 1, 2, 3].map(async (caller) => {
      while (state.isRunning) {
        state.calls += 1;
        const path = `/api/v2/devices/${device}`;
        const { status } =
          caller === 0
            ? await http.send('GET', path)
            : await http.send('PATCH', path, { body: { name: `Device ${state.calls}` } });
        statuses.add(status);
      }
    });
    const [ended] = await Promise.all([running, ...callers]);
    return { ended, statuses };
  }

  it('import and remove while the server writes, and neither blocks the other', async () => {
    const imported = await runWithTraffic('import', join(folder, 'copy'));
    expect([imported.ended.code, imported.ended.stderr]).toEqual([0, '']);
    expect(JSON.parse(imported.ended.stdout)).toMatchObject({
      vendors: VENDORS,
      new: VENDORS * PROFILES_PER_VENDOR,
      warnings: [],
    });
    expect([...imported.statuses]).toEqual([200]);
    const { json } = await http.send('GET', '/api/v2/device-profiles?pageSize=1');
    expect(json).toMatchObject({ total: VENDORS * 7 });
    const removed = await runWithTraffic('remove', '--source', 'lorawan-devices');
    expect([removed.ended.code, removed.ended.stderr]).toEqual([0, '']);
    expect(JSON.parse(removed.ended.stdout)).toMatchObject({
      removed: VENDORS * PROFILES_PER_VENDOR,
      models: VENDORS * 7,
      codecs: VENDORS * 7,
      kept: [],
    });
    expect([...removed.statuses]).toEqual([200]);
  });
});
