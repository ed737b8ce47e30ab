import {
  DigitalDeviceServiceService,
  type DigitalDevice,
  type UpdateDigitalDeviceRequest,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import { AccessControlServiceService } from '../../../src/gen/organization_access_control/access_control_service';
import { checkEtag, getEtag } from '../../../src/kernel/etags';
import { HttpClient, parseHttpError } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const { listDigitalDevices, createDigitalDevice, getDigitalDevice, updateDigitalDevice, deleteDigitalDevice } =
  DigitalDeviceServiceService;
const DEVICE = '/api/v2/devices/d1';

describe('etags over HTTP', () => {
  let edge: RestEdge;
  let client: HttpClient;
  let revision = 3;
  let lastSeen = 1_000;
  const checkedEtags: (string | undefined)[] = [];

  const device = (): DigitalDevice => ({
    id: 'd1',
    name: 'Valve',
    organizationId: 'org-1',
    lastSeen: { seconds: lastSeen, nanos: 0 },
    physicalDevice: undefined,
    sensors: [],
    images: [],
    dataSendingInterval: undefined,
    createdAt: undefined,
    updatedAt: undefined,
    etag: getEtag(revision),
  });
  const change = (etag: string | undefined): void => {
    checkedEtags.push(etag);
    checkEtag('device', revision, etag);
    revision += 1;
  };

  beforeAll(async () => {
    edge = await startRestEdge((server) => {
      server.addService(
        { listDigitalDevices, createDigitalDevice, getDigitalDevice, updateDigitalDevice, deleteDigitalDevice },
        {
          listDigitalDevices: async () => ({ devices: [device()] }) as never,
          createDigitalDevice: async () => device(),
          getDigitalDevice: async () => device(),
          updateDigitalDevice: async ({ etag }: UpdateDigitalDeviceRequest) => (change(etag), device()),
          deleteDigitalDevice: async ({ etag }: { etag?: string | undefined }) => (change(etag), {}),
        },
      );
      const { createApiKey } = AccessControlServiceService;
      server.addService({ createApiKey }, { createApiKey: async () => ({ key: 'plr_secret', apiKey: undefined }) });
    });
    client = new HttpClient(edge.address, edge.ca, FIELDS);
  });
  beforeEach(() => void checkedEtags.splice(0));
  afterAll(async () => {
    client.close();
    await edge.stop();
  });

  const tag = async (): Promise<string> => String((await client.get(DEVICE)).headers.etag);

  it('answers a read with 304 when the client already has the current response', async () => {
    const first = await client.get(DEVICE);
    expect(first.headers).toMatchObject({
      etag: expect.stringMatching(/^"3\.[\w-]{16}"$/),
      'cache-control': 'private, no-cache',
      vary: 'accept-encoding, x-api-key, x-organization-id',
    });
    const etag = String(first.headers.etag);
    for (const known of [etag, `W/${etag}`, `"other", W/"more" ,${etag}`, '*', ' * ']) {
      const again = await client.get(DEVICE, { 'if-none-match': known });
      expect([known, again.status, again.body.length, again.headers.etag]).toEqual([known, 304, 0, etag]);
      expect(again.headers).toMatchObject({
        'cache-control': 'private, no-cache',
        'x-request-id': expect.any(String),
        'x-content-type-options': 'nosniff',
      });
      expect(again.headers).not.toHaveProperty('content-type');
    }
    const malformed = [etag.slice(1, -1), '', `x${etag}`, `${etag} ${etag}`, `${etag}, x`, `${etag}"`];
    for (const other of ['"3"', '"x"', ...malformed]) {
      expect((await client.get(DEVICE, { 'if-none-match': other })).status).toBe(200);
    }
    expect(edge.log.of('rpc.request').filter(({ http }) => http === 304)).toHaveLength(5);
  });

  it('sends the same headers for HEAD', async () => {
    const { headers: ofGet } = await client.get(DEVICE);
    const head = await client.send('HEAD', DEVICE);
    expect([head.status, head.body.length]).toEqual([200, 0]);
    for (const name of ['etag', 'content-length', 'content-type', 'vary', 'cache-control'])
      expect([name, head.headers[name]]).toEqual([name, ofGet[name]]);
    const known = await client.send('HEAD', DEVICE, { headers: { 'if-none-match': String(ofGet.etag) } });
    expect([known.status, known.headers['content-length']]).toEqual([304, undefined]);
  });

  it('gives different responses of an unchanged record different etags, and derives the etag of a list from its text', async () => {
    const before = await tag();
    lastSeen += 1;
    expect(await tag()).not.toBe(before);
    expect((await tag()).slice(0, 3)).toBe(before.slice(0, 3));
    const { headers } = await client.get('/api/v2/devices');
    expect(headers.etag).toMatch(/^"[\w-]{16}"$/);
    expect((await client.get('/api/v2/devices', { 'if-none-match': String(headers.etag) })).status).toBe(304);
  });

  it('changes a record whose etag still matches and accepts the etag of the response for the next change', async () => {
    const changed = await client.send('PATCH', DEVICE, { headers: { 'if-match': await tag() }, body: { name: 'New' } });
    expect([changed.status, checkedEtags, changed.headers['cache-control']]).toEqual([200, ['"3"'], 'no-store']);
    expect(changed.headers.etag).toBe(await tag());
    const again = await client.send('PATCH', DEVICE, {
      headers: { 'if-match': String(changed.headers.etag) },
      body: { name: 'New' },
    });
    expect(again.status).toBe(200);
    const late = await client.send('PATCH', DEVICE, {
      headers: { 'if-match': String(changed.headers.etag) },
      body: { name: 'New' },
    });
    expect(parseHttpError(late)).toMatchObject({
      status: 412,
      code: 'version_conflict',
      metadata: { etag: getEtag(revision) },
    });
  });

  it.each([
    ['as stored in the record', () => getEtag(revision)],
    ['weakened by a compressing proxy', () => `W/"${revision}.abc"`],
    ['of two reads of one version', () => `"${revision}.abc", "${revision}.def"`],
  ])('accepts an etag %s', async (_, given) => {
    const wanted = getEtag(revision);
    expect((await client.send('DELETE', DEVICE, { headers: { 'if-match': given() } })).status).toBe(200);
    expect(checkedEtags).toEqual([wanted]);
  });

  it('changes any existing version for * and accepts the same etag twice', async () => {
    expect((await client.send('PATCH', DEVICE, { headers: { 'if-match': '*' }, body: {} })).status).toBe(200);
    expect(checkedEtags).toEqual([undefined]);
    const both = { headers: { 'if-match': await tag() }, body: { etag: getEtag(revision) } };
    expect((await client.send('PATCH', DEVICE, both)).status).toBe(200);
  });

  it.each([
    ['two different etags', 'PATCH', DEVICE, { 'if-match': '"1"' }, { etag: '"2"' }, 'etag'],
    [
      'two different etags, one in the query',
      'DELETE',
      `${DEVICE}?etag=%222%22`,
      { 'if-match': '"1"' },
      undefined,
      'etag',
    ],
    ['several versions', 'PATCH', DEVICE, { 'if-match': '"1", "2"' }, {}, 'If-Match'],
    ['no etag', 'PATCH', DEVICE, { 'if-match': '3' }, {}, 'If-Match'],
    ['an etag where none is checked', 'POST', '/api/v2/devices', { 'if-match': '"1"' }, { name: 'x' }, 'If-Match'],
    ['If-Match on a read', 'GET', DEVICE, { 'if-match': '"1"' }, undefined, 'If-Match'],
    ['If-None-Match on a create', 'POST', '/api/v2/devices', { 'if-none-match': '*' }, { name: 'x' }, 'If-None-Match'],
    ['If-None-Match on a change', 'PATCH', DEVICE, { 'if-none-match': '"1"' }, {}, 'If-None-Match'],
  ])('rejects %s', async (_, verb, path, headers, body, field) => {
    const answer = await client.send(verb, path, { headers, body });
    expect(parseHttpError(answer)).toMatchObject({ status: 400, code: 'validation_failed', fields: [field] });
    expect(checkedEtags).toEqual([]);
  });

  it('prevents caches from storing a new key or an error', async () => {
    const created = await client.send('POST', '/api/v2/api-keys', { body: { name: 'k', scopes: ['devices:read'] } });
    expect([created.status, created.headers['cache-control'], created.headers.etag]).toEqual([
      200,
      'no-store',
      undefined,
    ]);
    expect((await client.get('/nowhere')).headers['cache-control']).toBe('no-store');
  });
});
