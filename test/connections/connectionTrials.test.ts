import { status } from '@grpc/grpc-js';
import type { NewConnection } from '../../src/connections/connectionService';
import { ConnectionTrials } from '../../src/connections';
import type { ConnectionCheck } from '../../src/connections/connector';
import { ConnectionCheckOutcome, ConnectionServiceClient, type TestConnectionRequest, type TestConnectionResponse } from '../../src/gen/connection/connection_service';
import { call, callFails, headers, type TestEdge } from '../support/edge';
import { openRoom, serveRoom, type ConnectionRoom } from './connectionRoom';
import { registerFake } from './fakeConnector';

const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const SECRET = 'correct horse';
const url = 'mqtt://broker.example';
const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({ connectorId: 'fake', name: 'Broker', description: '', enabled: true, configuration: { url }, policy: {}, ...overrides });
const ask = (overrides: Partial<TestConnectionRequest>): TestConnectionRequest => ({ organizationId: '', configuration: undefined, ...overrides });

describe('trials of connections', () => {
  let room: ConnectionRoom;
  let edge: TestEdge;
  let client: ConnectionServiceClient;
  beforeAll(async () => {
    registerFake();
    room = await openRoom();
    edge = await serveRoom(room);
    edge.keys.add('key');
    edge.keys.add('foreign', { organizationId: 'org-2' });
    edge.keys.add('reader', { scopes: new Set(['connections:read']) });
    client = edge.client(ConnectionServiceClient);
  });
  beforeEach(async () => {
    room.fake.found = async () => [];
    await room.test.database.db.knex('connections').delete();
  });
  afterAll(async () => {
    await edge.stop();
    await room.test.drop();
  });

  const trial = async (request: TestConnectionRequest) => await call<TestConnectionRequest, TestConnectionResponse>(client.testConnection.bind(client), request, FIELDS);
  const fails = async (request: TestConnectionRequest, fields = FIELDS) => await callFails(client.testConnection.bind(client), request, fields);
  const tried = () => room.fake.tried.at(-1);

  it('say what was looked at, and whether nothing failed', async () => {
    const checks: ConnectionCheck[] = [{ name: 'address', outcome: 'ok', message: 'reached' }, { name: 'protocol', outcome: 'warning', message: '3.1.1' }, { name: 'publish', outcome: 'skipped', message: 'not tried' }];
    room.fake.found = async () => checks;
    const request = ask({ connectorId: 'fake', configuration: { url, token: SECRET } });
    expect(await trial(request)).toEqual({
      ok: true,
      checks: [
        { name: 'address', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_OK, message: 'reached' },
        { name: 'protocol', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_WARNING, message: '3.1.1' },
        { name: 'publish', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_SKIPPED, message: 'not tried' },
      ],
    });
    expect(tried()).toMatchObject({ connection: { id: '', organizationId: 'org-1', configuration: { url } }, settings: { url, token: SECRET } });
    room.fake.found = async () => [...checks, { name: 'sign_in', outcome: 'failed', message: 'wrong password' }];
    expect(await trial(request)).toMatchObject({ ok: false, checks: { length: 4 } });
    expect((await room.service.list('org-1', undefined, '')).connections).toEqual([]);
  });

  it('of a stored connection use its secrets, also with another configuration, and leave it as it is', async () => {
    const { connection } = await room.service.create('org-1', input({ configuration: { url, token: SECRET }, enabled: false }));
    const taken = room.fake.taken.length;
    await trial(ask({ id: connection.id }));
    expect(tried()).toMatchObject({ connection: { id: connection.id }, settings: { url, token: SECRET } });
    await trial(ask({ id: connection.id, configuration: { url, keepaliveSeconds: 60 } }));
    expect(tried()?.settings).toEqual({ url, keepaliveSeconds: 60, token: SECRET });
    const trials = room.fake.tried.length;
    expect(await fails(ask({ id: connection.id, configuration: { url: 'mqtt://listener.example' } }))).toMatchObject({ reason: 'validation_failed', fields: ['configuration.token'] });
    expect(room.fake.tried).toHaveLength(trials);
    await trial(ask({ id: connection.id, configuration: { url: 'mqtt://other', token: 'another' } }));
    expect(tried()?.settings).toEqual({ url: 'mqtt://other', token: 'another' });
    await trial(ask({ id: connection.id, configuration: { url, token: null } }));
    expect(tried()?.settings).toEqual({ url });
    expect((await room.service.get('org-1', connection.id)).connection).toEqual(connection);
    expect(room.fake.taken).toHaveLength(taken);
  });

  it.each<[string, Partial<TestConnectionRequest>, string[]]>([
    ['nothing to try', {}, ['id']],
    ['both', { id: 'c', connectorId: 'fake' }, ['connectorId']],
    ['an unknown connector', { connectorId: 'pigeon' }, ['connectorId']],
    ['a wrong configuration', { connectorId: 'fake', configuration: { password: 'p' } }, ['configuration.url', 'configuration.username']],
  ])('refuse %s', async (_, request, violations) => {
    const error = await fails(ask(request));
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(violations);
  });

  it('refuse a wrong configuration for a stored connection, and one of another organization', async () => {
    const { connection } = await room.service.create('org-1', input());
    expect((await fails(ask({ id: connection.id, configuration: { url: 1 } }))).fields).toEqual(['configuration.url']);
    expect(await fails(ask({ id: connection.id }), { 'x-api-key': 'foreign', 'x-organization-id': 'org-2' })).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    expect(await fails(ask({ id: connection.id }), { ...FIELDS, 'x-api-key': 'reader' })).toMatchObject({ code: status.PERMISSION_DENIED });
  });

  it('run four at once for an organization, and go on when one ends', async () => {
    const ends: (() => void)[] = [];
    room.fake.found = async () => await new Promise((resolve) => ends.push(() => resolve([])));
    const request = ask({ connectorId: 'fake', configuration: { url } });
    const begun = room.fake.tried.length;
    const running = [trial(request), trial(request), trial(request), trial(request), fails(request)];
    expect(await running.at(-1)).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: 'rate_limited', retryMs: 5000 });
    expect(room.fake.tried).toHaveLength(begun + 4);
    ends.shift()?.();
    await running[0];
    running.push(trial(request));
    while (ends.length < 4) await new Promise(setImmediate);
    for (const end of ends) end();
    await Promise.all(running);
  });

  it('end when the caller goes away', async () => {
    const aborted = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    room.fake.found = async (signal) => {
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      aborted.resolve();
      return [];
    };
    const running = client.testConnection(ask({ connectorId: 'fake', configuration: { url } }), headers(FIELDS), () => {});
    await begun.promise;
    running.cancel();
    await aborted.promise;
  });

  it('end when their time is up, whatever the connector does', async () => {
    room.fake.found = async () => await new Promise(() => {});
    const trials = new ConnectionTrials({ database: room.test.database, hub: room.hub, secrets: room.secrets, limitMs: 5 });
    const checks = await trials.test('org-1', { kind: 'new', connectorId: 'fake', configuration: { url } }, new AbortController().signal);
    expect(checks).toEqual([{ name: 'time_limit', outcome: 'failed', message: expect.stringContaining('0.005 s') }]);
  });

  it('of a gateway connection say whether one is attached', async () => {
    const { connection } = await room.service.create('org-1', input({ connectorId: 'gateway', configuration: {} }));
    expect(await trial(ask({ id: connection.id }))).toMatchObject({ ok: true, checks: [{ name: 'gateway', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_WARNING }] });
  });
});
