import { readFileSync } from 'node:fs';
import { connect, type ClientHttp2Session } from 'node:http2';
import { text } from 'node:stream/consumers';
import { engines, type TestEngine } from '../../support/engines';
import { HttpClient, parseHttpError, type HttpAnswer, type JsonObject } from '../../support/http';
import { as, startTestApp, type TestApp } from '../../support/testApp';
import { head, rawAnswer } from './rawHttp';

// Tests addresses and connections as real clients write and use them.

let server: TestApp;
let http: HttpClient;
let device: string;

const create = async (path: string, body: unknown): Promise<JsonObject> =>
  (await http.send('POST', path, { body })).json;

beforeAll(async () => {
  server = await startTestApp(engines()[0] as TestEngine);
  http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId));
  device = (await create('/api/v2/devices', { name: 'Device' }))['id'] as string;
});
afterAll(async () => {
  http.close();
  await server.stop();
});

const headers = (): Record<string, string> => as(server.key, server.organizationId);

const call = (at: number, connection: string): string =>
  head('GET', at % 3 === 2 ? '/api/v2/devices/nobody' : `/api/v2/devices/${device}`, {
    ...headers(),
    'x-request-id': `call-${at}`,
    connection,
  });
const change = (at: number, connection: string): string => {
  const body = JSON.stringify({ name: `Name ${at}` });
  return (
    head('PATCH', `/api/v2/devices/${device}`, {
      ...headers(),
      'content-type': 'application/json',
      'content-length': String(body.length),
      connection,
    }) + body
  );
};

describe('addresses', () => {
  it('answers HEAD as GET without the body', async () => {
    const [got, headed] = [
      await http.get(`/api/v2/devices/${device}`),
      await http.send('HEAD', `/api/v2/devices/${device}`),
    ];
    expect(headed).toMatchObject({ status: 200, body: Buffer.alloc(0) });
    expect(headed.headers).toMatchObject({
      'content-type': got.headers['content-type'],
      'content-length': String(got.body.length),
      etag: got.headers.etag,
    });
    expect(await http.send('HEAD', '/api/v2/devices/nobody')).toMatchObject({ status: 404, body: Buffer.alloc(0) });
  });

  it('decodes a percent-encoded id', async () => {
    const encoded = Array.from(device, (sign) => `%${(sign.codePointAt(0) as number).toString(16)}`).join('');
    expect(await http.get(`/api/v2/devices/${encoded}`)).toMatchObject({ status: 200, json: { id: device } });
    expect(await http.get(`/api/v2/devices/${encoded}?organizationId=${server.organizationId}`)).toMatchObject({
      status: 200,
    });
    expect(parseHttpError(await http.get('/api/v2/devices/a%2Fb'))).toMatchObject({
      status: 404,
      code: 'device_not_found',
      metadata: { device_id: 'a/b' },
    });
    expect(parseHttpError(await http.get('/api/v2/devices/caf%C3%A9'))).toMatchObject({
      status: 404,
      metadata: { device_id: 'café' },
    });
  });

  it.each(['%', '%zz', '%ff', '%C3', '%E0%A4%A', 'a%'])('rejects the id %s, which is not valid text', async (id) => {
    expect(parseHttpError(await http.get(`/api/v2/devices/${id}`))).toMatchObject({
      status: 400,
      code: 'validation_failed',
    });
  });

  it.each([
    '/api/v2//devices',
    '//api/v2/devices',
    '/API/v2/devices',
    '/api/v2/Devices',
    '/api/v2/devices/x/',
    '/api/v2/devices/../devices',
    '/api',
    '/nope',
    '/api/v2/readings%3Alatest',
    '/api/v2/readings:nope',
    '/digitaldevice.v2.DigitalDeviceService',
    '/digitaldevice.v2.DigitalDeviceService/Nope',
  ])('answers 404 at %s', async (path) => {
    for (const verb of ['GET', 'POST', 'DELETE']) expect(parseHttpError(await http.send(verb, path)).status).toBe(404);
  });

  it.each(['/api/v2/devices/', '/api/v2/devices//sensors', '/api/v2/devices/x/commands/'])(
    'answers 404 at %s, where an id is missing',
    async (path) => {
      for (const verb of ['GET', 'POST', 'PATCH', 'DELETE']) {
        expect(parseHttpError(await http.send(verb, path))).toMatchObject({ status: 404, code: 'route_not_found' });
      }
      expect((await http.get(`/api/v2/devices/${device}`)).status).toBe(200);
    },
  );

  it.each([129, 512, 513, 5000, 12_000])('rejects an id of %d characters', async (length) => {
    const error = parseHttpError(await http.get(`/api/v2/devices/${'x'.repeat(length)}`));
    expect(error.status).toBeGreaterThanOrEqual(400);
    expect(error.status).toBeLessThan(500);
    expect(error.message.length).toBeLessThan(1000);
  });

  it('cancels by a verb after a colon and reads ids that contain colons', async () => {
    const { id: connectionId } = await create('/api/v2/connections', { connectorId: 'gateway', name: 'Plant room' });
    const { id } = await create('/api/v2/devices', {
      name: 'Valve',
      physicalDevice: { clientDeviceId: 'valve', connectionId },
    });
    const { id: commandId } = await create(`/api/v2/devices/${id}/commands`, {
      command: { name: 'Open', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{}' },
    });
    const { executionId } = await create(`/api/v2/devices/${id}/actuator-executions`, { commandId });
    expect(await http.send('POST', `/api/v2/actuator-executions/${executionId}:cancel`)).toMatchObject({
      status: 200,
      json: { id: executionId, detail: 'cancelled' },
    });
    expect(await http.get(`/api/v2/actuator-executions/${executionId}`)).toMatchObject({
      status: 200,
      json: { id: executionId },
    });
    expect(parseHttpError(await http.get('/api/v2/actuator-executions/a:b'))).toMatchObject({
      status: 404,
      code: 'execution_not_found',
    });
    expect(parseHttpError(await http.get(`/api/v2/actuator-executions/${executionId}:cancel`))).toMatchObject({
      status: 405,
    });
    expect(
      parseHttpError(await http.send('POST', `/api/v2/actuator-executions/${executionId}:open`)).status,
    ).toBeGreaterThanOrEqual(404);
    expect(await http.get(`/api/v2/readings:latest?deviceIds=${id}`)).toMatchObject({
      status: 200,
      json: { sensors: [] },
    });
  });

  it.each([5, ['x'], { id: 'x' }])('rejects a request that names its organization as %j with 400', async (id) => {
    const alone = new HttpClient(server.app.addresses.http as string, server.app.ca, { 'x-api-key': server.key });
    const answer = await alone.send('POST', '/api/v2/devices', { body: { name: 'Valve', organizationId: id } });
    alone.close();
    expect(parseHttpError(answer)).toMatchObject({
      status: 400,
      code: 'validation_failed',
      fields: ['organizationId'],
    });
  });

  it('serves health without a key', async () => {
    const stranger = new HttpClient(server.app.addresses.http as string, server.app.ca);
    expect([(await stranger.get('/healthz')).status, (await stranger.get('/readyz')).status]).toEqual([200, 200]);
    stranger.close();
  });
});

describe('headers', () => {
  it.each(['mine', '0', 'x'.repeat(128), 'with blanks, and signs: {}"~'])(
    'returns the request id %s unchanged',
    async (id) => {
      const answers = [
        await http.get('/api/v2/devices', { 'x-request-id': id }),
        await http.get('/api/v2/devices/nobody', { 'x-request-id': id }),
        await http.get('/nope', { 'x-request-id': id }),
      ];
      expect(answers.map((answer) => answer.headers['x-request-id'])).toEqual([id, id, id]);
      expect(answers.slice(1).map((answer) => parseHttpError(answer).requestId)).toEqual([id, id]);
    },
  );

  it.each(['', 'x'.repeat(129), 'caf\u00E9', 'tab\there'])('generates an id instead of %j', async (id) => {
    const { headers: answered } = await http.get('/api/v2/devices', { 'x-request-id': id });
    expect(answered['x-request-id']).toMatch(/^[\w-]{8,128}$/);
    expect(answered['x-request-id']).not.toBe(id);
  });

  it.each(['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON;charset=UTF-8'])(
    'accepts JSON as %s',
    async (type) => {
      expect(
        (
          await http.send('POST', '/api/v2/devices', {
            headers: { 'content-type': type },
            body: Buffer.from('{"name": "Typed"}'),
          })
        ).status,
      ).toBe(200);
    },
  );

  it.each([
    ['is compressed', { 'content-encoding': 'gzip' }, 'Content-Encoding'],
    ['has another charset', { 'content-type': 'application/json; charset=iso-8859-1' }, 'charset'],
    ['has another charset in quotes', { 'content-type': 'application/json;Charset="utf-16"' }, 'charset'],
  ])('rejects a body that %s with 415', async (_, headers, words) => {
    const type = { 'content-type': 'application/json' };
    const answer = await http.send('POST', '/api/v2/devices', {
      body: '{"name": "Valve"}',
      headers: { ...type, ...headers },
    });
    expect(parseHttpError(answer)).toMatchObject({
      status: 415,
      code: 'media_type_unsupported',
      message: expect.stringContaining(words),
    });
  });

  it('ignores the body of a GET request and stays in sync', async () => {
    for (const body of ['{"limit": 0}', 'no JSON'])
      expect(await http.send('GET', '/api/v2/devices?search=Device', { body: Buffer.from(body) })).toMatchObject({
        status: 200,
        json: { total: 1 },
      });
    expect((await http.get('/api/v2/devices')).status).toBe(200);
  });

  it('supports Expect: 100-continue before the body', async () => {
    const body = '{"name": "Asked"}';
    const answer = await rawAnswer(
      server,
      head('POST', '/api/v2/devices', {
        ...headers(),
        'content-type': 'application/json',
        'content-length': String(body.length),
        expect: '100-continue',
        connection: 'close',
      }),
      body,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 100 [\s\S]*HTTP\/1\.1 200 OK/);
  });

  it('accepts a key and an organization that are sent twice, and rejects different ones', async () => {
    const { key: otherKey } = await server.newKey(server.organizationId);
    const otherOrganization = '0190a0a0-0000-7000-8000-000000000009';
    expect((await listDevices({ 'x-api-key': [server.key, server.key] })).status).toBe(200);
    expect((await listDevices({ 'x-api-key': ` ${server.key} ` })).status).toBe(200);
    expect((await listDevices({ 'x-organization-id': [server.organizationId, server.organizationId] })).status).toBe(
      200,
    );
    expect(parseHttpError(await listDevices({ 'x-api-key': [server.key, otherKey] })).code).toBe('api_key_invalid');
    expect(
      parseHttpError(await listDevices({ 'x-organization-id': [server.organizationId, otherOrganization] })).code,
    ).toBe('organization_mismatch');
  });
});

/** Lists devices with these headers. */
async function listDevices(headers: Record<string, string | string[]>): Promise<HttpAnswer> {
  return await http.send('GET', '/api/v2/devices', { headers });
}

describe('a key in a query string', () => {
  const SPELLINGS = [
    'x-api-key',
    'X-API-Key',
    'x_api_key',
    'xApiKey',
    'apiKey',
    'api_key',
    'api-key',
    'APIKEY',
    'key',
    'token',
    'access_token',
    'authorization',
    'x%2Dapi%2Dkey',
    '%78-api-key',
    'x-api-key[]',
    '%20x-api-key',
    'search',
    'nope',
    'organizationId',
  ];

  it.each(SPELLINGS)('is rejected as %s, never used and never logged', async (name) => {
    const { key } = await server.newKey(server.organizationId);
    const stranger = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const answers: HttpAnswer[] = [];
    for (const value of [key, `%20${key}`, `%70${key.slice(1)}`, `Bearer+${key}`]) {
      const query = `?${name}=${value}`;
      answers.push(
        await stranger.get(`/api/v2/devices${query}&organizationId=${server.organizationId}`),
        await http.get(`/api/v2/devices${query}`),
        await http.send('POST', `/api/v2/devices${query}`, { body: { name: 'By a key in the query' } }),
      );
      answers.push(await http.get(`/api/v2/actuator-executions:watch${query}`));
    }
    stranger.close();
    expect(answers.map((answer) => parseHttpError(answer)).map(({ status, code }) => `${status} ${code}`)).toEqual(
      answers.map(() => '400 validation_failed'),
    );
    expect(answers.map(({ body }) => body.toString()).join('')).not.toContain(key.slice(10));
    for (const path of ['/nope', '/healthz', '/api/v2/devices%3F']) await http.get(`${path}?${name}=${key}`);
    for (const path of [
      `/api/v2/devices%3F${name}=${key}`,
      `/${key}`,
      `/%70${key.slice(1)}`,
      `/api/v2/devices/${key}`,
      `/api/v2/devices/%zz${key}`,
    ])
      await http.get(path);
    expect(JSON.stringify(server.log.lines)).not.toContain(key.slice(10));
  });

  it('creates nothing', async () => {
    expect((await http.get('/api/v2/devices?search=query')).json).toMatchObject({ total: 0 });
  });
});

describe('connections', () => {
  it('answers ten pipelined calls on one connection in order', async () => {
    const answer = await rawAnswer(
      server,
      Array.from({ length: 10 }, (_, at) => call(at, at === 9 ? 'close' : 'keep-alive')).join(''),
    );
    expect([...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(
      Array.from({ length: 10 }, (_, at) => (at % 3 === 2 ? '404' : '200')),
    );
    expect([...answer.matchAll(/x-request-id: (call-\d)/g)].map(([, id]) => id)).toEqual(
      Array.from({ length: 10 }, (_, at) => `call-${at}`),
    );
  });

  it('answers pipelined changes in order', async () => {
    const answer = await rawAnswer(
      server,
      Array.from({ length: 5 }, (_, at) => change(at, at === 4 ? 'close' : 'keep-alive')).join(''),
    );
    expect([...answer.matchAll(/"name":"(Name \d)"/g)].map(([, name]) => name)).toEqual([
      'Name 0',
      'Name 1',
      'Name 2',
      'Name 3',
      'Name 4',
    ]);
  });

  it('supports HTTP/1.0', async () => {
    const fields = Object.entries(headers())
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    const answer = await rawAnswer(server, `GET /api/v2/devices/${device} HTTP/1.0\r\n${fields}\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.\d 200 OK/);
    expect(answer).not.toMatch(/transfer-encoding/i);
    expect(answer).toContain(`"id":"${device}"`);
  });

  describe('over HTTP/2', () => {
    let session: ClientHttp2Session;
    beforeAll(
      () => (session = connect(`https://${server.app.addresses.http}`, { ca: readFileSync(server.app.ca as string) })),
    );
    afterAll(() => session.close());

    const sendRequest = async (
      verb: string,
      path: string,
      body?: string,
    ): Promise<{ status: unknown; requestId: unknown; json: JsonObject }> => {
      const stream = session.request({
        ...headers(),
        ':method': verb,
        ':path': path,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      });
      const answered = new Promise<Record<string, unknown>>((resolve, reject) =>
        stream.on('response', resolve).on('error', reject),
      );
      stream.end(body);
      const fields = await answered;
      const content = await text(stream);
      return {
        status: fields[':status'],
        requestId: fields['x-request-id'],
        json: content === '' ? {} : (JSON.parse(content) as JsonObject),
      };
    };

    it('reads, creates, rejects and deletes with many concurrent calls', async () => {
      const [got, created, unknown, wrong, verb, headed] = await Promise.all([
        sendRequest('GET', `/api/v2/devices/${device}`),
        sendRequest('POST', '/api/v2/devices', '{"name": "Two"}'),
        sendRequest('GET', '/nope'),
        sendRequest('POST', '/api/v2/devices', '{"name": 7}'),
        sendRequest('PUT', '/api/v2/devices'),
        sendRequest('HEAD', '/api/v2/devices'),
      ]);
      expect([got, created, unknown, wrong, verb, headed].map(({ status }) => status)).toEqual([
        200, 200, 404, 400, 405, 200,
      ]);
      expect(wrong.json).toMatchObject({ error: { code: 'validation_failed', requestId: wrong.requestId } });
      expect(await sendRequest('DELETE', `/api/v2/devices/${created.json['id'] as string}`)).toMatchObject({
        status: 200,
        json: {},
      });
      expect(
        (
          await sendRequest(
            'POST',
            '/digitaldevice.v2.DigitalDeviceService/GetDigitalDevice',
            JSON.stringify({ id: device }),
          )
        ).json,
      ).toEqual(got.json);
    });
  });
});

it('logged no internal error', () => {
  expect(server.log.lines.filter(({ level }) => level === 'error')).toEqual([]);
});
