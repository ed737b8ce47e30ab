import { status } from '@grpc/grpc-js';
import type { NewConnection } from '../../src/connections/connectionService';
import { ConnectionTester } from '../../src/connections';
import type { ConnectionCheck } from '../../src/connections/connector';
import {
  ConnectionCheckOutcome,
  ConnectionServiceClient,
  type TestConnectionRequest,
  type TestConnectionResponse,
} from '../../src/gen/connection/connection_service';
import { call, callFails, headers, type TestEdge } from '../support/edge';
import { openFixture, serveFixture, type ConnectionFixture } from './connectionFixture';
import { registerFake } from './fakeConnector';

const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const SECRET = 'correct horse';
const url = 'mqtt://broker.example';
const input = (overrides: Partial<NewConnection> = {}): NewConnection => ({
  connectorId: 'fake',
  name: 'Broker',
  description: '',
  enabled: true,
  configuration: { url },
  policy: {},
  ...overrides,
});
const createRequest = (overrides: Partial<TestConnectionRequest>): TestConnectionRequest => ({
  organizationId: '',
  configuration: undefined,
  ...overrides,
});

describe('connection tests', () => {
  let fixture: ConnectionFixture;
  let edge: TestEdge;
  let client: ConnectionServiceClient;
  beforeAll(async () => {
    registerFake();
    fixture = await openFixture();
    edge = await serveFixture(fixture);
    edge.keys.add('key');
    edge.keys.add('foreign', { organizationId: 'org-2' });
    edge.keys.add('reader', { scopes: new Set(['connections:read']) });
    client = edge.client(ConnectionServiceClient);
  });
  beforeEach(async () => {
    fixture.fake.runChecks = async () => [];
    await fixture.test.database.db.knex('connections').delete();
  });
  afterAll(async () => {
    await edge.stop();
    await fixture.test.drop();
  });

  const trial = async (request: TestConnectionRequest) =>
    await call<TestConnectionRequest, TestConnectionResponse>(client.testConnection.bind(client), request, FIELDS);
  const fails = async (request: TestConnectionRequest, fields = FIELDS) =>
    await callFails(client.testConnection.bind(client), request, fields);
  const getLastTested = () => fixture.fake.tested.at(-1);

  it('report all checks and whether none failed', async () => {
    const checks: ConnectionCheck[] = [
      { name: 'address', outcome: 'ok', message: 'reached' },
      { name: 'protocol', outcome: 'warning', message: '3.1.1' },
      { name: 'publish', outcome: 'skipped', message: 'not tried' },
    ];
    fixture.fake.runChecks = async () => checks;
    const request = createRequest({ connectorId: 'fake', configuration: { url, token: SECRET } });
    expect(await trial(request)).toEqual({
      ok: true,
      checks: [
        { name: 'address', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_OK, message: 'reached' },
        { name: 'protocol', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_WARNING, message: '3.1.1' },
        { name: 'publish', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_SKIPPED, message: 'not tried' },
      ],
    });
    expect(getLastTested()).toMatchObject({
      connection: { id: '', organizationId: 'org-1', configuration: { url } },
      settings: { url, token: SECRET },
    });
    fixture.fake.runChecks = async () => [...checks, { name: 'sign_in', outcome: 'failed', message: 'wrong password' }];
    expect(await trial(request)).toMatchObject({ ok: false, checks: { length: 4 } });
    expect((await fixture.service.list('org-1', undefined, '')).connections).toEqual([]);
  });

  it('of a stored connection use its secrets, also with another configuration, and leave it unchanged', async () => {
    const { connection } = await fixture.service.create(
      'org-1',
      input({ configuration: { url, token: SECRET }, enabled: false }),
    );
    const taken = fixture.fake.changed.length;
    await trial(createRequest({ id: connection.id }));
    expect(getLastTested()).toMatchObject({ connection: { id: connection.id }, settings: { url, token: SECRET } });
    await trial(createRequest({ id: connection.id, configuration: { url, keepaliveSeconds: 60 } }));
    expect(getLastTested()?.settings).toEqual({ url, keepaliveSeconds: 60, token: SECRET });
    const trials = fixture.fake.tested.length;
    expect(
      await fails(createRequest({ id: connection.id, configuration: { url: 'mqtt://listener.example' } })),
    ).toMatchObject({
      reason: 'validation_failed',
      fields: ['configuration.token'],
    });
    expect(fixture.fake.tested).toHaveLength(trials);
    await trial(createRequest({ id: connection.id, configuration: { url: 'mqtt://other', token: 'another' } }));
    expect(getLastTested()?.settings).toEqual({ url: 'mqtt://other', token: 'another' });
    await trial(createRequest({ id: connection.id, configuration: { url, token: null } }));
    expect(getLastTested()?.settings).toEqual({ url });
    expect((await fixture.service.get('org-1', connection.id)).connection).toEqual(connection);
    expect(fixture.fake.changed).toHaveLength(taken);
  });

  it.each<[string, Partial<TestConnectionRequest>, string[]]>([
    ['an empty request', {}, ['id']],
    ['an id together with a connector', { id: 'c', connectorId: 'fake' }, ['connectorId']],
    ['an unknown connector', { connectorId: 'pigeon' }, ['connectorId']],
    [
      'an invalid configuration',
      { connectorId: 'fake', configuration: { password: 'p' } },
      ['configuration.url', 'configuration.username'],
    ],
  ])('reject %s', async (_, request, violations) => {
    const error = await fails(createRequest(request));
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual(violations);
  });

  it('reject an invalid configuration for a stored connection, and a connection of another organization', async () => {
    const { connection } = await fixture.service.create('org-1', input());
    expect((await fails(createRequest({ id: connection.id, configuration: { url: 1 } }))).fields).toEqual([
      'configuration.url',
    ]);
    expect(
      await fails(createRequest({ id: connection.id }), { 'x-api-key': 'foreign', 'x-organization-id': 'org-2' }),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    expect(await fails(createRequest({ id: connection.id }), { ...FIELDS, 'x-api-key': 'reader' })).toMatchObject({
      code: status.PERMISSION_DENIED,
    });
  });

  it('run four at a time for an organization, and accept another when one ends', async () => {
    const ends: (() => void)[] = [];
    fixture.fake.runChecks = async () => await new Promise((resolve) => ends.push(() => resolve([])));
    const request = createRequest({ connectorId: 'fake', configuration: { url } });
    const countBefore = fixture.fake.tested.length;
    const running = [trial(request), trial(request), trial(request), trial(request), fails(request)];
    expect(await running.at(-1)).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      reason: 'rate_limited',
      retryMs: 5000,
    });
    expect(fixture.fake.tested).toHaveLength(countBefore + 4);
    ends.shift()?.();
    await running[0];
    running.push(trial(request));
    while (ends.length < 4) await new Promise(setImmediate);
    for (const end of ends) end();
    await Promise.all(running);
  });

  it('end when the caller cancels', async () => {
    const aborted = Promise.withResolvers<void>();
    const countBefore = Promise.withResolvers<void>();
    fixture.fake.runChecks = async (signal) => {
      countBefore.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      aborted.resolve();
      return [];
    };
    const running = client.testConnection(
      createRequest({ connectorId: 'fake', configuration: { url } }),
      headers(FIELDS),
      () => {},
    );
    await countBefore.promise;
    running.cancel();
    await aborted.promise;
  });

  it('end at their timeout, whatever the connector does', async () => {
    fixture.fake.runChecks = async () => await new Promise(() => {});
    const trials = new ConnectionTester({
      database: fixture.test.database,
      hub: fixture.hub,
      secrets: fixture.secrets,
      statuses: fixture.statuses,
      timeoutMs: 5,
    });
    const checks = await trials.test(
      'org-1',
      { kind: 'new', connectorId: 'fake', configuration: { url } },
      new AbortController().signal,
    );
    expect(checks).toEqual([{ name: 'time_limit', outcome: 'failed', message: expect.stringContaining('0.005 s') }]);
  });

  it('of a gateway connection report whether a gateway is attached', async () => {
    const { connection } = await fixture.service.create('org-1', input({ connectorId: 'gateway', configuration: {} }));
    expect(await trial(createRequest({ id: connection.id }))).toMatchObject({
      ok: true,
      checks: [{ name: 'gateway', outcome: ConnectionCheckOutcome.CONNECTION_CHECK_OUTCOME_WARNING }],
    });
  });
});
