import fc from 'fast-check';
import { engines, type TestEngine } from '../../support/engines';
import { HttpClient, parseHttpError, type HttpAnswer } from '../../support/http';
import { as, startTestApp, type TestApp } from '../../support/testApp';
import { head, rawAnswer } from './rawHttp';

// Sends malicious bodies and framings. Each must get a success or an error of the contract, and the server must keep
// serving.

const SEED = 20261122;
const RUNS = 150;
const ID = '0190a0a0-0000-7000-8000-000000000009';
const PLACES = [
  ['POST', '/api/v2/devices'],
  ['PATCH', `/api/v2/devices/${ID}`],
  ['POST', `/api/v2/devices/${ID}/commands`],
  ['POST', `/api/v2/devices/${ID}/actuator-executions`],
  ['DELETE', `/api/v2/devices/${ID}/sensors`],
  ['POST', '/api/v2/connections'],
  ['POST', '/api/v2/api-keys'],
  ['POST', '/digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice'],
  ['POST', '/sensorquery.v1.SensorQueryService/QueryRange'],
] as const;
const nested = (depth: number, open: string, close: string): string =>
  `{"name": "d", "physicalDevice": {"configuration": {"a": ${open.repeat(depth)}${close.repeat(depth)}}}}`;

const HOSTILE: readonly (readonly [what: string, body: string | Buffer, field: string | undefined])[] = [
  ['33 levels of lists', nested(33, '[', ']'), 'physicalDevice.configuration.a'],
  ['100,000 levels of lists', nested(100_000, '[', ']'), 'physicalDevice.configuration.a'],
  ['100,000 levels of objects', nested(100_000, '{"a":', '').replace(/,?$/, ''), 'physicalDevice.configuration.a'],
  ['an unpaired high surrogate', '{"name": "a\\ud800"}', 'name'],
  ['an unpaired low surrogate', '{"name": "\\udc00a"}', 'name'],
  [
    'an unpaired surrogate in a key',
    '{"physicalDevice": {"configuration": {"\\ud800": 1}}, "name": "d"}',
    'physicalDevice.configuration',
  ],
  ['NUL in a string', '{"name": "a\\u0000b"}', 'name'],
  [
    'NUL in a key',
    '{"name": "d", "physicalDevice": {"configuration": {"a\\u0000": 1}}}',
    'physicalDevice.configuration',
  ],
  ['NUL as a byte', '{"name": "a\u0000b"}', undefined],
  ['1e400', '{"name": "d", "physicalDevice": {"configuration": {"a": 1e400}}}', 'physicalDevice.configuration.a'],
  ['-1e400 for an integer', '{"name": "d", "images": [{"mediaId": "m", "position": -1e400}]}', 'images[0].position'],
  [
    'an integer that is not exact',
    '{"name": "d", "physicalDevice": {"configuration": {"a": 9007199254740993}}}',
    'physicalDevice.configuration.a',
  ],
  [
    'an integer of 5,000 digits',
    `{"name": "d", "physicalDevice": {"configuration": {"a": ${'9'.repeat(5000)}}}}`,
    'physicalDevice.configuration.a',
  ],
  ['a byte order mark', '\uFEFF{"name": "d"}', ''],
  ['__proto__', '{"name": "d", "__proto__": {"isAdmin": true}}', '__proto__'],
  [
    'a nested __proto__',
    '{"name": "d", "physicalDevice": {"configuration": {"__proto__": {"a": 1}}}}',
    'physicalDevice.configuration.__proto__',
  ],
  ['__proto__ by escapes', '{"name": "d", "\\u005f_proto__": 1}', '__proto__'],
  ['constructor', '{"name": "d", "constructor": {"prototype": {"a": 1}}}', 'constructor'],
  ['a duplicate key', '{"name": "d", "name": "e"}', 'name'],
  ['a duplicate key, once by escapes', '{"name": "d", "n\\u0061me": "e"}', 'name'],
  [
    'a nested duplicate key',
    '{"name": "d", "physicalDevice": {"configuration": {"a": 1, "a": 2}}}',
    'physicalDevice.configuration.a',
  ],
  ['truncated UTF-8', Buffer.from([...Buffer.from('{"name": "'), 0xe2, 0x82]), ''],
  ['overlong UTF-8', Buffer.from([...Buffer.from('{"name": "'), 0xc0, 0xaf, 0x22, 0x7d]), ''],
  ['a surrogate in UTF-8', Buffer.from([...Buffer.from('{"name": "'), 0xed, 0xa0, 0x80, 0x22, 0x7d]), ''],
  ['UTF-16', Buffer.from('{"name": "d"}', 'utf16le'), undefined],
  ['Latin-1', Buffer.from('{"name": "caf\u00e9"}', 'latin1'), ''],
  ['single quotes', "{'name': 'd'}", undefined],
  ['a comment', '{"name": "d" /* mine */}', undefined],
  ['NaN', '{"name": NaN}', undefined],
  ['a leading zero', '{"name": "d", "images": [{"mediaId": "m", "position": 01}]}', undefined],
  ['a plus sign', '{"name": "d", "images": [{"mediaId": "m", "position": +1}]}', undefined],
  ['a raw line break in a string', '{"name": "a\nb"}', undefined],
  ['an unterminated string', '{"name": "d', undefined],
  ['an unknown escape', '{"name": "\\x41"}', undefined],
  ['a megabyte of blanks', ' '.repeat(1024 * 1024), undefined],
  ['a megabyte of brackets', '['.repeat(1024 * 1024), undefined],
  ['a megabyte of quotes', '"'.repeat(1024 * 1024), undefined],
  ['a megabyte of keys', `{${Array.from({ length: 60_000 }, (_, at) => `"k${at}": 1`).join(',')}}`, undefined],
];

/** JSON that is almost valid, and mutated bytes of it. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom('', 'd', '\ud800', '\u0000', '\uFEFF', '__proto__', '{{params.x}}', 'x'.repeat(3000)),
);
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  text,
  fc.double(),
  fc.constantFrom(2 ** 53, -(2 ** 31) - 1, 1e308, null, [[]], {}),
);
const names = fc.oneof(
  fc.constantFrom(
    'name',
    'command',
    'mode',
    'physicalDevice',
    'configuration',
    'images',
    'sensorIds',
    'params',
    'organizationId',
    'connectorId',
    'scopes',
    'expiresAt',
    'from',
    'to',
    'etag',
    'id',
  ),
  text,
);
const almost = fc
  .dictionary(names, fc.oneof(value, fc.dictionary(names, value, { maxKeys: 4 }), fc.array(value, { maxLength: 4 })), {
    maxKeys: 6,
  })
  .map((json) => Buffer.from(JSON.stringify(json)));
const damaged = fc
  .tuple(almost, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 3 }))
  .map(([bytes, changes]) =>
    changes.reduce((changed, [at, byte]) => Buffer.from(changed.with(at % changed.length, byte)), bytes),
  );
const bodies = fc.oneof(
  almost,
  damaged,
  fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
);

let server: TestApp;
let http: HttpClient;

beforeAll(async () => {
  server = await startTestApp(engines()[0] as TestEngine);
  http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId));
});
afterAll(async () => {
  http.close();
  await server.stop();
});

/** Asserts a success or an error in the format of the contract. */
function expectClean(answer: HttpAnswer): void {
  if (answer.status >= 300 && answer.status !== 422) expect(parseHttpError(answer).status).toBeLessThan(500);
}

/** Splits the bytes at random positions. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return places
    .slice(1)
    .map((end, at) => bytes.subarray(places[at], end))
    .filter(({ length }) => length > 0);
}

it.each(HOSTILE)('rejects %s', async (_what, body, field) => {
  const answer = await http.send('POST', '/api/v2/devices', {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(body),
  });
  const seen = parseHttpError(answer);
  expect(seen).toMatchObject({ status: 400, code: 'validation_failed' });
  if (field !== undefined) expect(seen.fields.map((one) => one.slice(0, field.length))).toContain(field);
  expect(answer.body.length).toBeLessThan(40_000);
});

it.each(PLACES)(`%s %s handles any body in any chunks (seed ${SEED})`, async (verb, path) => {
  await fc.assert(
    fc.asyncProperty(bodies, fc.array(fc.nat(), { maxLength: 6 }), fc.boolean(), async (body, cuts, inPieces) => {
      const sent = inPieces ? pieces(body, cuts) : body;
      expectClean(await http.send(verb, path, { headers: { 'content-type': 'application/json' }, body: sent }));
    }),
    { seed: SEED, numRuns: RUNS, endOnFailure: true },
  );
});

it(`handles any query (seed ${SEED})`, async () => {
  const pairs = fc.array(
    fc.tuple(
      fc.oneof(
        names,
        fc.constantFrom('sensorIds', 'bucket.unit', 'bucket.count', 'limit', 'pageToken', 'bucket', '.', 'a.b.c'),
      ),
      fc.oneof(text, fc.constantFrom('0', '-1', '1e9', 'true', '2026-01-01T00:00:00Z', 'hour')),
    ),
    { maxLength: 5 },
  );
  await fc.assert(
    fc.asyncProperty(
      pairs,
      fc.constantFrom(
        '/api/v2/devices',
        '/api/v2/readings',
        '/api/v2/readings:aggregate',
        `/api/v2/devices/${ID}/actuator-executions`,
      ),
      async (query, path) => {
        expectClean(
          await http.get(
            `${path}?${new URLSearchParams(query.map(([name, one]): [string, string] => [name, one])).toString()}`,
          ),
        );
      },
    ),
    { seed: SEED, numRuns: RUNS, endOnFailure: true },
  );
});

it.each([
  '%',
  '?',
  '?%zz',
  '?%ff=1',
  '?a=%',
  '?&&==&',
  '?organizationId',
  '?organizationId=',
  '?limit=1&limit=2',
  '?__proto__=1',
  '?constructor=1',
  '?search=%00',
  '?search=%ED%A0%80',
  '?limit=%EF%BC%91',
  `?search=${'x'.repeat(9000)}`,
  `?${'a&'.repeat(4000)}`,
])('handles the query %s', async (query) => {
  expectClean(await http.get(`/api/v2/devices${query}`));
});

/** The headers of a call with a JSON body. */
function fields(more: Readonly<Record<string, string>>): Record<string, string> {
  return { ...as(server.key, server.organizationId), 'content-type': 'application/json', ...more };
}

describe('framings', () => {
  const json = '{"name": "Framed"}';

  it.each([
    ['a length that is not a number', { 'content-length': 'many' }, json],
    ['a negative length', { 'content-length': '-1' }, json],
    ['a length and chunks', { 'content-length': '5', 'transfer-encoding': 'chunked' }, `12\r\n${json}\r\n0\r\n\r\n`],
    ['chunks twice', { 'transfer-encoding': 'chunked, chunked', connection: 'close' }, `12\r\n${json}\r\n0\r\n\r\n`],
  ])('rejects %s and closes the connection', async (_what, framing, body) => {
    const answer = await rawAnswer(server, head('POST', '/api/v2/devices', fields(framing)), body);
    expect(answer).toMatch(/^HTTP\/1\.1 (?:400|200) [\s\S]*connection: close/);
    if (!answer.startsWith('HTTP/1.1 200')) expect(answer).toMatch(/\{"error":\{"code":"[a-z_]+"/);
  });

  // The rest of the bytes is neither a request nor a chunk. The server cannot tell where a response would belong, so it
  // closes the connection even if it has already answered.
  it.each([
    ['a length that is too short', { 'content-length': '5' }, json],
    ['a chunk without an end', { 'transfer-encoding': 'chunked', connection: 'close' }, `5\r\n${json}\r\n0\r\n\r\n`],
    ['a chunk with an invalid length', { 'transfer-encoding': 'chunked' }, `xyz\r\n${json}\r\n0\r\n\r\n`],
    ['a chunk with a huge length', { 'transfer-encoding': 'chunked' }, `FFFFFFFFFFFFFFFFFF\r\n${json}\r\n0\r\n\r\n`],
    ['an unknown encoding', { 'transfer-encoding': 'gzip' }, json],
  ])('closes the connection on %s and creates nothing', async (_what, framing, body) => {
    const answer = await rawAnswer(server, head('POST', '/api/v2/devices', fields(framing)), body);
    expect(answer).toMatch(/^$|^HTTP\/1\.1 4\d\d /);
    expect((await http.get('/api/v2/devices?search=Framed')).json).toMatchObject({ total: 0 });
  });

  it('reads chunks of one byte, with extensions and trailers', async () => {
    const chunks = Array.from(json, (sign, at) => `1;part=${at}\r\n${sign}\r\n`).join('');
    const answer = await rawAnswer(
      server,
      head('POST', '/api/v2/devices', fields({ 'transfer-encoding': 'chunked', connection: 'close' })),
      chunks,
      '0\r\nx-trailer: 1\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*"name":"Framed"/);
  });

  it.each([
    'GET / HTTP/9.9\r\n\r\n',
    'NONSENSE\r\n\r\n',
    '\u0000\u0001\u0002\r\n\r\n',
    'GET /api/v2/devices HTTP/1.1\r\n\r\n',
    'GET /api/v2/devices HTTP/1.1\r\nhost: a\r\nbad header: x\r\n\r\n',
    'GET http://elsewhere/api/v2/devices HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
    'CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n',
  ])('rejects %j', async (request) => {
    expect(await rawAnswer(server, request)).toMatch(/^(HTTP\/1\.1 [24]\d\d|$)/);
  });
});

it('keeps serving and logs neither an internal error nor the key', async () => {
  expect(await http.get('/api/v2/devices')).toMatchObject({ status: 200 });
  expect(server.log.lines.filter(({ level }) => level === 'error')).toEqual([]);
  expect(JSON.stringify(server.log.lines)).not.toContain(server.key.slice(10));
  expect(({} as Record<string, unknown>)['isAdmin']).toBeUndefined();
});
