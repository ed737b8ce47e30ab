import { sqliteOnly } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import { as, descriptors, startTestApp, type TestApp } from '../support/testApp';

const ACCESS = '/organization_access_control.AccessControlService';
const EMPTY = new Uint8Array();
const CALLERS = 8;

/** A rotated key: what the caller uses afterwards. */
interface Rotated extends JsonObject {
  readonly key: string;
  readonly apiKey: { readonly id: string };
}

describe.each(sqliteOnly())('a key that is rotated under load, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId));
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  /**
   * Calls over both protocols without a pause with the current key while it is rotated several times. Returns the
   * failures with their keys.
   */
  const underLoad = async (
    graceSeconds: number,
    rotations: number,
  ): Promise<{ calls: number; failed: { reason: string; key: string }[]; keys: string[] }> => {
    const descriptor = descriptors.methods.get(`${ACCESS}/WhoAmI`);
    if (!descriptor) throw new Error('there is no WhoAmI');
    const run = { current: await server.newKey(server.organizationId), calls: 0, isOver: false };
    const keys = [run.current.key];
    const failed: { reason: string; key: string }[] = [];
    const caller = async (at: number): Promise<void> => {
      while (!run.isOver) {
        const { key } = run.current;
        const fields = as(key, server.organizationId);
        const reason =
          at % 2 === 0
            ? (await server.send(descriptor, EMPTY, fields)).error?.reason
            : ((await http.get('/api/v2/who-am-i', fields)).json['error'] as { code: string } | undefined)?.code;
        run.calls += 1;
        if (reason !== undefined) failed.push({ reason, key });
      }
    };
    const callers = Array.from({ length: CALLERS }, async (_, at) => await caller(at));
    for (let rotation = 0; rotation < rotations; rotation += 1) {
      const until = run.calls + 4 * CALLERS;
      const answer = await http.send('POST', `${ACCESS}/RotateApiKey`, { body: { id: run.current.id, graceSeconds } });
      const rotated = answer.json as Rotated;
      run.current = { key: rotated.key, id: rotated.apiKey.id };
      keys.push(run.current.key);
      while (run.calls < until) await http.get('/healthz');
    }
    run.isOver = true;
    await Promise.all(callers);
    return { calls: run.calls, failed, keys };
  };

  it('fails no call during the grace period of the old key', async () => {
    const { calls, failed, keys } = await underLoad(60, 5);
    expect(calls).toBeGreaterThan(5 * CALLERS);
    expect(failed).toEqual([]);
    for (const key of keys)
      expect((await http.get('/api/v2/who-am-i', as(key, server.organizationId))).status).toBe(200);
  });

  it('without a grace period fails all calls with the old key from then on, and no others', async () => {
    const { failed, keys } = await underLoad(0, 5);
    const newest = keys.pop() as string;
    for (const { reason, key } of failed) expect([reason, key === newest]).toEqual(['api_key_expired', false]);
    expect(failed.length).toBeLessThanOrEqual(5 * CALLERS * 2);
    for (const key of keys)
      expect((await http.get('/api/v2/who-am-i', as(key, server.organizationId))).status).toBe(401);
    expect((await http.get('/api/v2/who-am-i', as(newest, server.organizationId))).status).toBe(200);
  });

  it('may rotate itself, and the new key names the one that it replaced', async () => {
    const old = await server.newKey(server.organizationId);
    const self = new HttpClient(server.app.addresses.http as string, server.app.ca, as(old.key, server.organizationId));
    const answer = await self.send('POST', `${ACCESS}/RotateApiKey`, { body: { id: old.id, graceSeconds: 0 } });
    expect(answer.json['apiKey']).toMatchObject({ rotatedFrom: old.id });
    expect((await self.get('/api/v2/who-am-i')).status).toBe(401);
    expect((await self.get('/api/v2/who-am-i', as((answer.json as Rotated).key, server.organizationId))).status).toBe(
      200,
    );
    self.close();
  });
});
