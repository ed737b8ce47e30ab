import { openAdminContext, type AdminContext } from '../../src/server';
import { loadConfig } from '../../src/config';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { engines } from '../support/engines';
import { HttpClient, parseHttpError, type HttpAnswer, type JsonObject } from '../support/http';
import { as, descriptors, startTestApp, type TestApp } from '../support/testApp';
import { StreamOpener, WATCHES, type OpenStream } from './openStreams';

const ACCESS = '/organization_access_control.AccessControlService';
const [EXECUTIONS, , READINGS] = WATCHES.map(([method]) => method);
const READ = ['commands:read', 'connections:read', 'telemetry:read', 'devices:read', 'dashboards:read'];

const listReasons = async (streams: readonly OpenStream[]): Promise<string[]> => [
  ...new Set(await Promise.all(streams.map(async ({ ended }) => await ended))),
];
const stillOpen = (streams: readonly OpenStream[]): number =>
  streams.filter(({ reason }) => reason() === undefined).length;

describe.each(engines())('changes while streams are open, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let elsewhere: AdminContext;
  let opener: StreamOpener;
  let deviceId: string;

  beforeAll(async () => {
    server = await startTestApp(engine, { 'rateLimit.failuresPerMinute': '20' });
    const { dataDir, url } = server.database;
    elsewhere = await openAdminContext(
      loadConfig({ file: false, env: {}, flags: { 'data.dir': dataDir, 'database.url': url } }).config,
      { log: silentLogger, clock: systemClock },
    );
    http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId));
    opener = new StreamOpener(server);
    await post('/connection.ConnectionService/CreateConnection', {
      connectorId: 'gateway',
      name: 'Gateway',
      configuration: {},
    }); // so that each watch has something to send
    deviceId = (await post('/digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice', { name: 'Pump' }))[
      'id'
    ] as string;
  });
  afterAll(async () => {
    opener.close();
    http.close();
    await elsewhere.close();
    await server.stop();
  });

  const post = async (path: string, body: JsonObject): Promise<JsonObject> => {
    const answer = await http.send('POST', path, { body });
    if (answer.status >= 300) throw new Error(`${path}: ${answer.body.toString()}`);
    return answer.json;
  };
  const whoAmI = async (key: string): Promise<HttpAnswer> =>
    await http.get('/api/v2/who-am-i', as(key, server.organizationId));
  const overGrpc = async (key: string): Promise<string> => {
    const descriptor = descriptors.methods.get(`${ACCESS}/WhoAmI`);
    if (!descriptor) throw new Error('there is no WhoAmI');
    return (await server.send(descriptor, new Uint8Array(), as(key, server.organizationId))).error?.reason ?? 'OK';
  };

  it('a key that is revoked here ends its hundred streams at once, and no others', async () => {
    const [first, second] = [
      await server.newKey(server.organizationId, { scopes: READ }),
      await server.newKey(server.organizationId, { scopes: READ }),
    ];
    const streams = await opener.open(first.key, 100);
    const others = await opener.open(second.key, 6);
    expect([stillOpen(streams), stillOpen(others)]).toEqual([100, 6]);
    await server.app.keys.revoke(server.organizationId, first.id);
    expect(await listReasons(streams)).toEqual(['api_key_revoked']);
    expect(stillOpen(others)).toBe(6);
    await post(`${ACCESS}/RotateApiKey`, { id: second.id, graceSeconds: 0 });
    expect(await listReasons(others)).toEqual(['api_key_expired']);
  });

  it('a key that is revoked by another process ends them at the next check', async () => {
    const { id, key } = await server.newKey(server.organizationId, { scopes: READ });
    const streams = await opener.open(key, 100);
    expect(stillOpen(streams)).toBe(100);
    await elsewhere.keys.revoke(server.organizationId, id);
    expect(await listReasons(streams)).toEqual(['api_key_revoked']);
    expect(await overGrpc(key)).toBe('api_key_revoked');
  });

  it('a member with another role keeps the streams that the role allows, and a removed member keeps none', async () => {
    const member = await post(`${ACCESS}/AddMember`, { name: 'Technician', roleId: 'admin' });
    const userId = member['userId'] as string;
    const { key } = await server.app.keys.create(server.organizationId, {
      name: 'Key',
      scopes: READ,
      connectionIds: [],
      allConnections: false,
      ownerUserId: userId,
      isAdmin: false,
      expiresAt: undefined,
    });
    const streams = await opener.open(key, 16);
    const role = await post(`${ACCESS}/CreateRole`, {
      name: 'Starter',
      scopes: ['commands:read', 'connections:read', 'dashboards:read'],
    });
    await post(`${ACCESS}/UpdateMember`, { userId, roleId: role['id'] });
    const refused = streams.filter(({ method }) => method === READINGS);
    expect(await listReasons(refused)).toEqual(['insufficient_scope']);
    expect([refused.length, stillOpen(streams)]).toEqual([4, 12]);
    await post(`${ACCESS}/UpdateRole`, { id: role['id'], scopes: ['commands:read'] });
    const executionStreams = streams.filter(({ method }) => method === EXECUTIONS);
    expect(await listReasons(streams.filter((one) => !executionStreams.includes(one)))).toEqual(['insufficient_scope']);
    expect(stillOpen(executionStreams)).toBe(4);
    await post(`${ACCESS}/RemoveMember`, { userId });
    expect(await listReasons(executionStreams)).toEqual(['api_key_revoked']);
  });

  it('a key that is limited further ends the streams that see more; they can be opened again', async () => {
    const { id, key } = await server.newKey(server.organizationId, { scopes: READ });
    const streams = (await opener.open(key, 6)).filter(({ method }) => method === EXECUTIONS);
    await post(`${ACCESS}/UpdateApiKey`, {
      id,
      restrictions: { deviceIds: [deviceId], connectionIds: [], commandIds: [] },
    });
    expect(await listReasons(streams)).toEqual(['api_key_restricted']);
    const again = (await opener.open(key, 2)).filter(({ method }) => method === EXECUTIONS);
    await post(`${ACCESS}/UpdateApiKey`, { id, note: 'changed, with the same limits' });
    expect(stillOpen(again)).toBe(2);
    await server.app.keys.revoke(server.organizationId, id);
    expect(await listReasons(again)).toEqual(['api_key_revoked']);
  });

  it('an address that is no longer allowed is rejected over both protocols, streams too', async () => {
    const { id, key } = await server.newKey(server.organizationId, { scopes: READ });
    const streams = await opener.open(key, 6);
    await post(`${ACCESS}/UpdateApiKey`, { id, allowedAddresses: { addresses: ['127.0.0.0/8', '::1'] } });
    expect([await overGrpc(key), (await whoAmI(key)).status, stillOpen(streams)]).toEqual(['OK', 200, 6]);
    await post(`${ACCESS}/UpdateApiKey`, { id, allowedAddresses: { addresses: ['192.0.2.0/24'] } });
    expect(await listReasons(streams)).toEqual(['address_not_allowed']);
    expect(await overGrpc(key)).toBe('address_not_allowed');
    expect(parseHttpError(await whoAmI(key))).toMatchObject({
      status: 403,
      code: 'address_not_allowed',
      metadata: { address: '127.0.0.1' },
    });
  });

  it('a flood of wrong keys gets only rate-limit errors over both protocols, while a valid key from the same address works', async () => {
    const { key, id } = await server.newKey(server.organizationId, { scopes: READ });
    const doomed = await server.newKey(server.organizationId);
    await server.app.keys.revoke(server.organizationId, doomed.id);
    const flood = await Promise.all(
      Array.from({ length: 60 }, async (_, at) =>
        at % 2 === 0
          ? await overGrpc('plr_wrong')
          : ((await whoAmI('plr_wrong')).json['error'] as { code: string }).code,
      ),
    );
    expect(new Set(flood)).toEqual(new Set(['api_key_invalid', 'rate_limited']));
    expect(flood.filter((reason) => reason === 'rate_limited').length).toBeGreaterThan(30);
    const refused = await whoAmI(doomed.key);
    expect(parseHttpError(refused)).toMatchObject({ status: 429, code: 'rate_limited', grpc: 'RESOURCE_EXHAUSTED' });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect([await overGrpc(doomed.key), await overGrpc(key), (await whoAmI(key)).status]).toEqual([
      'rate_limited',
      'OK',
      200,
    ]);
    expect(server.log.of('rpc.request')).toContainEqual(
      expect.objectContaining({ reason: 'rate_limited', key_prefix: doomed.key.slice(0, 10), peer: '127.0.0.1' }),
    );
    expect(JSON.stringify(server.log.lines)).not.toContain(doomed.key.slice(0, 20));
    await server.app.keys.revoke(server.organizationId, id);
  });
});
