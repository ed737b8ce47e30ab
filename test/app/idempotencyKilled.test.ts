import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plantroomServe, type ServeProcess } from '../support/commandLine';
import { sqliteOnly } from '../support/engines';
import { HttpClient } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';

const DEVICES = '/api/v2/devices';
/** Kills the server when it has stored the result of a POST and is about to send the response. */
const TRAP = `const { ServerResponse } = require('node:http');
const { end } = ServerResponse.prototype;
ServerResponse.prototype.end = function (...rest) {
  if (this.req.method === 'POST') process.kill(process.pid, 'SIGKILL');
  return end.apply(this, rest);
};`;

describe.each(sqliteOnly())('a server that is killed between the commit and the response, on $name', (engine) => {
  let app: TestApp;
  let env: Record<string, string>;
  const running: ServeProcess[] = [];
  const clients: HttpClient[] = [];

  beforeAll(async () => {
    app = await startTestApp(engine);
    await app.app.stop(); // other processes serve the same site
    const listen = {
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_TLS_MODE: 'off',
    };
    env = { PLANTROOM_DATA_DIR: app.database.dataDir, PLANTROOM_DATABASE_URL: app.database.url, ...listen };
  });
  afterAll(async () => {
    for (const client of clients) client.close();
    for (const server of running) await server.stop('SIGKILL');
    await app.database.drop();
  });

  const serve = async (others: Record<string, string> = {}): Promise<HttpClient> => {
    const server = await plantroomServe({ ...env, ...others });
    running.push(server);
    const client = new HttpClient(String(server.ready['http']), undefined, as(app.key, app.organizationId));
    clients.push(client);
    return client;
  };

  it('has carried out the request once when it is sent again', async () => {
    const trap = join(app.database.dataDir, 'trap.cjs');
    writeFileSync(trap, TRAP);
    const request = { headers: { 'idempotency-key': 'killed' }, body: { name: 'Valve' } };
    const dying = await serve({ NODE_OPTIONS: `--require=${trap}` });
    await expect(dying.send('POST', DEVICES, request)).rejects.toThrow(/socket hang up|ECONNRESET/);

    const next = await serve();
    const again = await next.send('POST', DEVICES, request);
    expect([again.status, again.headers['idempotency-replayed']]).toEqual([200, 'true']);
    const { json } = await next.get(DEVICES);
    expect(json['devices']).toMatchObject([{ id: again.json['id'], name: 'Valve' }]);
  });
});
