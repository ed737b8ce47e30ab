import { connect } from 'node:http2';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  DigitalDeviceServiceService,
  type DigitalDevice,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import { AccessControlServiceService } from '../../../src/gen/organization_access_control/access_control_service';
import { HttpClient } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const { getDigitalDevice, updateDigitalDevice } = DigitalDeviceServiceService;
const LARGE = '/api/v2/devices/large';
const SMALL = '/api/v2/devices/small';
const DECODED: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  br: brotliDecompressSync,
  gzip: gunzipSync,
  none: (body) => body,
};

const device = (id: string): DigitalDevice => ({
  id,
  name: id === 'large' ? 'long '.repeat(1000) : 'short',
  organizationId: 'org-1',
  lastSeen: undefined,
  physicalDevice: undefined,
  sensors: [],
  images: [],
  dataSendingInterval: undefined,
  createdAt: undefined,
  updatedAt: undefined,
  etag: '"7"',
});

describe('compression', () => {
  let edge: RestEdge;
  let client: HttpClient;

  beforeAll(async () => {
    edge = await startRestEdge((server) => {
      server.addService(
        { getDigitalDevice, updateDigitalDevice },
        { getDigitalDevice: async ({ id }) => device(id), updateDigitalDevice: async ({ id }) => device(id) },
      );
      const { createApiKey } = AccessControlServiceService;
      server.addService(
        { createApiKey },
        { createApiKey: async () => ({ key: 'plr_secret '.repeat(1000), apiKey: undefined }) },
      );
    });
    client = new HttpClient(edge.address, edge.ca, FIELDS);
  });
  afterAll(async () => {
    client.close();
    await edge.stop();
  });

  it.each([
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip, deflate', 'gzip'],
    ['GZIP', 'gzip'],
    ['br;q=0.5, gzip;q=0.8', 'gzip'],
    ['br;q=0, *', 'gzip'],
    ['*', 'br'],
    ['gzip;q=0', 'none'],
    ['*;q=0', 'none'],
    ['identity, gzip;q=0.5', 'none'],
    ['deflate', 'none'],
    ['', 'none'],
    ['gzip;q=nonsense', 'gzip'],
  ])('answers Accept-Encoding "%s" with %s', async (accepted, encoding) => {
    const plain = await client.get(LARGE);
    const answer = await client.get(LARGE, { 'accept-encoding': accepted });
    expect(answer.headers['content-encoding'] ?? 'none').toBe(encoding);
    expect(DECODED[encoding]?.(answer.body).equals(plain.body)).toBe(true);
    expect(answer.headers.vary).toContain('accept-encoding');
    expect(answer.headers['content-length']).toBe(String(answer.body.length));
  });

  it('leaves small responses uncompressed unless identity is not acceptable', async () => {
    expect((await client.get(SMALL, { 'accept-encoding': 'br' })).headers).not.toHaveProperty('content-encoding');
    expect((await client.get(SMALL, { 'accept-encoding': 'gzip, identity;q=0' })).headers['content-encoding']).toBe(
      'gzip',
    );
  });

  it('weakens the etag of a compressed response and accepts it in both forms', async () => {
    const plain = String((await client.get(LARGE)).headers.etag);
    const packed = await client.get(LARGE, { 'accept-encoding': 'br' });
    expect(packed.headers.etag).toBe(`W/${plain}`);
    for (const known of [plain, `W/${plain}`]) {
      for (const accepted of ['br', 'identity'])
        expect((await client.get(LARGE, { 'accept-encoding': accepted, 'if-none-match': known })).status).toBe(304);
    }
    const changed = await client.send('PATCH', LARGE, {
      headers: { 'if-match': String(packed.headers.etag) },
      body: {},
    });
    expect(changed.status).toBe(200);
  });

  it('sends the same headers for HEAD', async () => {
    const head = await client.send('HEAD', LARGE, { headers: { 'accept-encoding': 'gzip' } });
    const { headers } = await client.get(LARGE, { 'accept-encoding': 'gzip' });
    for (const name of ['etag', 'content-length', 'content-encoding', 'vary'])
      expect([name, head.headers[name]]).toEqual([name, headers[name]]);
    expect(head.body.length).toBe(0);
  });

  it('compresses reads by POST but never the response to a change or one with a new key', async () => {
    const accepted = { 'accept-encoding': 'br' };
    const read = await client.send('POST', '/digitaldevice.v2.DigitalDeviceService/GetDigitalDevice', {
      headers: accepted,
      body: { id: 'large' },
    });
    const changed = await client.send('PATCH', LARGE, { headers: accepted, body: {} });
    const key = await client.send('POST', '/api/v2/api-keys', {
      headers: accepted,
      body: { name: 'k', scopes: ['devices:read'] },
    });
    expect([read, changed, key].map(({ status, headers }) => [status, headers['content-encoding']])).toEqual([
      [200, 'br'],
      [200, undefined],
      [200, undefined],
    ]);
  });

  it('accepts any Accept-Encoding header that can be sent', async () => {
    for (const accepted of [
      ',',
      ';',
      '=;q',
      'gzip;;q=1;q=0',
      'q=1',
      'gzip;q=1e999',
      'a'.repeat(4000),
      ...Array.from({ length: 300 }, (_, n) => `x${n}`),
    ]) {
      expect((await client.get(SMALL, { 'accept-encoding': accepted })).status).toBe(200);
    }
  });

  it('compresses over HTTP/2', async () => {
    const secure = await startRestEdge(
      (server) => server.addService({ getDigitalDevice }, { getDigitalDevice: async ({ id }) => device(id) }),
      { isSecure: true },
    );
    const session = connect(`https://${secure.address}`, { rejectUnauthorized: false });
    const stream = session.request({ ':path': LARGE, 'accept-encoding': 'br', ...FIELDS });
    const headers = await new Promise<Readonly<Record<string, unknown>>>((resolve, reject) =>
      stream.once('response', resolve).once('error', reject),
    );
    expect(headers).toMatchObject({ ':status': 200, 'content-encoding': 'br' });
    expect(JSON.parse(brotliDecompressSync(Buffer.concat(await stream.toArray())).toString())).toMatchObject({
      id: 'large',
    });
    session.close();
    await secure.stop();
  });
});
