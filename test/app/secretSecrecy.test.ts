import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Aedes } from 'aedes';
import { startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import { systemClock } from '../../src/kernel/clock';
import { MemoryLog, temporaryFolder } from '../support/edge';
import { engines } from '../support/engines';
import { HttpClient } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';

/** Texts that must not appear anywhere. */
const BROKER_PASSWORD = 'br0ker-Passw0rd-right';
const WRONG_PASSWORD = 'br0ker-Passw0rd-wrong';
const IN_URL = 'Passw0rd-1n-an-url';
const DATABASE_PASSWORD = 'dat4base-Passw0rd';
const PASSPHRASE = 'correct horse battery staple';
const SECRET_KEY = randomBytes(32).toString('base64');

/** A broker that accepts one password. */
async function startBroker(): Promise<{
  url: string;
  refused: Promise<unknown>;
  accepted: Promise<unknown>;
  stop: () => Promise<void>;
}> {
  const aedes = await Aedes.createBroker();
  const [refused, accepted] = [Promise.withResolvers<unknown>(), Promise.withResolvers<unknown>()];
  aedes.authenticate = (_client, _user, password, done) => {
    const isRight = String(password) === BROKER_PASSWORD;
    (isRight ? accepted : refused).resolve(true);
    done(null, isRight);
  };
  const server = createServer(aedes.handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async (): Promise<void> => {
    server.close();
    await new Promise<void>((resolve) => aedes.close(resolve));
  };
  return {
    url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
    refused: refused.promise,
    accepted: accepted.promise,
    stop,
  };
}

/** Stores everything that is sent to it. */
async function startCollector(): Promise<{ url: string; sent: () => string; stop: () => void }> {
  const bodies: Buffer[] = [];
  const server = createHttpServer((request, response) => {
    request.on('data', (part: Buffer) => bodies.push(part));
    request.on('end', () => response.end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`,
    sent: () => Buffer.concat(bodies).toString('latin1'),
    stop: () => void server.close(),
  };
}

const formatText = (value: unknown): string =>
  inspect(value, { depth: 20, maxArrayLength: null, maxStringLength: null, showHidden: true });

describe.each(engines())('secrets on $name', (engine) => {
  let app: TestApp;
  let broker: Awaited<ReturnType<typeof startBroker>>;
  let collector: Awaited<ReturnType<typeof startCollector>>;
  let http: HttpClient;
  let stranger: HttpClient;
  let numbers: HttpClient;
  const responses: string[] = [];
  const numbersSeen: string[] = [];

  /** Sends a call and stores the response. */
  async function sendCall(
    client: HttpClient,
    verb: string,
    path: string,
    parts: Parameters<HttpClient['send']>[2] = {},
  ): Promise<void> {
    const { status, headers, body } = await client.send(verb, path, parts);
    (client === numbers ? numbersSeen : responses).push(`${status} ${JSON.stringify(headers)} ${body.toString()}`);
  }

  beforeAll(async () => {
    [broker, collector] = [await startBroker(), await startCollector()];
    const withPassword: typeof engine = {
      ...engine,
      createDatabase: async () => {
        const test = await engine.createDatabase();
        if (test.url === '') return test;
        const url = new URL(test.url);
        url.password = DATABASE_PASSWORD; // this server requires no password
        return { ...test, url: url.href };
      },
    };
    app = await startTestApp(withPassword, {
      'metrics.listen': '127.0.0.1:0',
      'traces.endpoint': collector.url,
      'log.level': 'debug',
      'secrets.key': SECRET_KEY,
    });
    const { addresses, ca } = app.app;
    http = new HttpClient(addresses.http ?? '', ca, as(app.key, app.organizationId));
    stranger = new HttpClient(addresses.http ?? '', ca);
    numbers = new HttpClient(addresses.metrics ?? '', undefined);
  });
  afterAll(async () => {
    for (const client of [http, stranger, numbers]) client.close();
    await app.stop();
    await broker.stop();
    collector.stop();
  });

  it('appear in no log line, metric or trace wherever they are sent, and no response reveals those of others', async () => {
    const connection = (name: string, configuration: object) => ({
      body: {
        connectorId: 'mqtt',
        name,
        configuration: {
          url: broker.url,
          username: 'plantroom',
          uplinkTopic: 'up/{{clientDeviceId}}',
          ...configuration,
        },
      },
    });
    await sendCall(http, 'POST', '/api/v2/connections', connection('Right', { password: BROKER_PASSWORD }));
    await sendCall(http, 'POST', '/api/v2/connections', connection('Wrong', { password: WRONG_PASSWORD }));
    await sendCall(
      http,
      'POST',
      '/api/v2/connections',
      connection('In the address', { url: `mqtt://plantroom:${IN_URL}@127.0.0.1:1` }),
    );
    await sendCall(http, 'POST', '/api/v2/connections', connection('Of a wrong type', { password: [BROKER_PASSWORD] }));
    await sendCall(http, 'POST', '/connection.ConnectionService/TestConnection', {
      body: {
        connectorId: 'mqtt',
        configuration: {
          url: broker.url,
          username: 'plantroom',
          uplinkTopic: 'up/{{clientDeviceId}}',
          password: WRONG_PASSWORD,
        },
      },
    });
    await sendCall(http, 'POST', '/api/v2/connections', {
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(`{"configuration":{"password":"${BROKER_PASSWORD}"`),
    });
    await Promise.all([broker.accepted, broker.refused]);

    const { key } = app;
    await sendCall(stranger, 'GET', `/api/v2/devices?x-api-key=${key}&key=${key}`);
    await sendCall(stranger, 'GET', `/api/v2/devices/${key}`);
    await sendCall(stranger, 'GET', `/nowhere/${encodeURIComponent(key)}`);
    await sendCall(stranger, 'GET', '/api/v2/devices', {
      headers: {
        authorization: `Bearer ${key}`,
        cookie: `key=${key}`,
        'x-api-key': `${key}x`,
        'user-agent': key,
        traceparent: key,
        'x-request-id': key,
      },
    });
    await sendCall(http, 'POST', '/api/v2/devices', {
      body: { name: key, physicalDevice: { connectionId: key, clientDeviceId: key } },
    });
    await sendCall(numbers, 'GET', `/metrics?key=${key}`, { headers: { 'x-api-key': key } });
    await sendCall(numbers, 'GET', `/${key}`);
    await sendCall(http, 'GET', '/api/v2/connections');
    await sendCall(numbers, 'GET', '/metrics');
    await app.app.stop(); // the traces are exported

    const output = [formatText(app.log.lines), collector.sent(), ...numbersSeen].join('\n');
    // Asserts that something was checked.
    for (const part of ['rpc.request', 'plantroom_build_info', 'CreateConnection']) expect(output).toContain(part);
    // A caller sees its own key where it sent it as an id.
    expect(output.includes(key.slice(10, 30))).toBe(false);
    const all = [output, ...responses].join('\n');
    for (const secret of [BROKER_PASSWORD, WRONG_PASSWORD, IN_URL, SECRET_KEY, DATABASE_PASSWORD])
      expect([secret, all.includes(secret)]).toEqual([secret, false]);
  });
});

const config = (dataDir: string, flags: Readonly<Record<string, string>>) =>
  loadConfig({
    file: false,
    env: {},
    flags: {
      'data.dir': dataDir,
      'grpc.listen': '127.0.0.1:0',
      'http.listen': 'off',
      'metrics.listen': 'off',
      'log.level': 'debug',
      ...flags,
    },
  }).config;

describe('a server that cannot start', () => {
  it.each([
    [
      'cannot reach its database',
      { 'database.url': `postgres://plantroom:${DATABASE_PASSWORD}@127.0.0.1:1/plantroom` },
    ],
    ['cannot listen', { 'grpc.listen': '192.0.2.1:1', 'secrets.key': SECRET_KEY }],
  ])('reveals no secret when it %s', async (_, flags) => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder.path, 'passphrase'), PASSPHRASE);
    const log = new MemoryLog();
    try {
      const failure: unknown = await startServer(
        config(folder.path, { ...flags, 'backup.passphraseFile': join(folder.path, 'passphrase') }),
        { log, clock: systemClock },
      ).catch((error: unknown) => error);
      expect(failure).toMatchObject({ kind: 'unavailable' });
      const written = formatText(log.lines) + formatText(failure);
      for (const secret of [DATABASE_PASSWORD, SECRET_KEY, PASSPHRASE])
        expect([secret, written.includes(secret)]).toEqual([secret, false]);
    } finally {
      await folder.remove();
    }
  });
});
