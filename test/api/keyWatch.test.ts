import type { Readable } from 'node:stream';
import type { ServiceError } from '@grpc/grpc-js';
import {
  ActuatorCommandServiceClient,
  ActuatorCommandServiceService,
  type WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { UserProfileServiceClient, UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import { HealthClient } from '../../src/gen/grpc/health/v1/health';
import { DomainError } from '../../src/kernel/errors';
import type { Principal } from '../../src/kernel/principal';
import { isScopeWithin, type ResourceScope } from '../../src/kernel/resourceScope';
import type { Services } from '../../src/api/services';
import { FIELDS, startRestEdge } from './rest/restEdge';
import { call, callFails, headers, parseError, startEdge, type TestEdge } from '../support/edge';
import { HttpClient, parseHttpError } from '../support/http';

const WATCH: WatchExecutionsRequest = {
  organizationId: '',
  id: undefined,
  executionId: undefined,
  resumeToken: '',
  endsWhenFinal: false,
};
const REACH: ResourceScope = {
  devices: { ids: new Set(['a', 'b']), connectionIds: new Set(['c']) },
  commands: undefined,
};
const LONG = 600_000; // longer than the time limit of a test

const services = (server: Services): void => {
  server.addService(
    { watchExecutions: ActuatorCommandServiceService.watchExecutions },
    {
      watchExecutions: async function* (_, { signal }): AsyncGenerator<WatchExecutionsResponse> {
        yield { execution: undefined, event: undefined, resumeToken: '1' };
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    },
  );
  server.addService(UserProfileServiceService, {
    getPersonalUser: async () => ({
      id: 'u',
      name: 'n',
      email: '',
      createdAt: undefined,
      updatedAt: undefined,
      memberships: [],
    }),
  });
};

describe('the key of an open stream', () => {
  let edge: TestEdge;
  let watches: ActuatorCommandServiceClient;
  beforeAll(async () => {
    edge = await startEdge(services, { keyRecheckMs: LONG });
    watches = edge.client(ActuatorCommandServiceClient);
  });
  afterAll(() => edge.stop());

  /** Opens a stream; resolves after its first message, with a promise of the end. */
  const open = async (
    key: string,
    overrides: Partial<Principal> = {},
  ): Promise<{ ended: Promise<string | undefined> }> => {
    edge.keys.add(key, overrides);
    const stream: Readable = watches.watchExecutions(WATCH, headers({ ...FIELDS, 'x-api-key': key }));
    const ended = new Promise<string | undefined>((resolve) =>
      stream.on('error', (error: ServiceError) => resolve(parseError(error).reason)),
    );
    await new Promise((resolve) => stream.once('data', resolve));
    stream.resume();
    return { ended };
  };

  it('ends the stream when the key expires, not at the next check, even if the expiry changed later', async () => {
    const [known, later] = [await open('ends', { expiresAt: Date.now() + 300 }), await open('rotated')];
    edge.keys.add('rotated', { expiresAt: Date.now() + 300 });
    edge.server.pipeline.calls.keyWatch.recheck('rotated');
    expect(await Promise.all([known.ended, later.ended])).toEqual(['api_key_expired', 'api_key_expired']);
  });

  it('ends the stream when the key expires while the database does not respond', async () => {
    const recheck = jest.spyOn(edge.keys, 'recheck').mockImplementation(async () => await new Promise(() => {}));
    const { ended } = await open('unreadable', { expiresAt: Date.now() + 300 });
    edge.server.pipeline.calls.keyWatch.recheck('unreadable');
    expect(await ended).toBe('api_key_expired');
    recheck.mockRestore();
  });

  it('is checked by one read at a time plus one more, and only after changes of its own organization', async () => {
    const { ended } = await open('flooded', { organizationId: 'org-1' });
    const rechecks: PromiseWithResolvers<Principal>[] = [];
    const recheck = jest.spyOn(edge.keys, 'recheck').mockImplementation(async () => {
      rechecks.push(Promise.withResolvers());
      return await (rechecks.at(-1) as PromiseWithResolvers<Principal>).promise;
    });
    edge.server.pipeline.calls.keyWatch.recheckOrganization('org-2');
    expect(rechecks).toHaveLength(0);
    for (let change = 0; change < 100; change += 1) edge.server.pipeline.calls.keyWatch.recheckOrganization('org-1');
    expect(rechecks).toHaveLength(1);
    rechecks[0]?.resolve(edge.keys.keys.get('flooded') as Principal);
    await new Promise(setImmediate);
    expect(rechecks).toHaveLength(2);
    recheck.mockRestore();
    rechecks[1]?.reject(new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked'));
    expect(await ended).toBe('api_key_revoked');
  });

  it.each<[string, string, Partial<Principal>, Partial<Principal>]>([
    ['the scope of its method', 'insufficient_scope', {}, { scopes: new Set(['devices:read']) }],
    [
      'the address of its caller',
      'address_not_allowed',
      { allowedAddresses: ['127.0.0.1'] },
      { allowedAddresses: ['192.0.2.1'] },
    ],
    ['the whole organization', 'api_key_restricted', {}, { resourceScope: REACH }],
    [
      'some devices',
      'api_key_restricted',
      { resourceScope: REACH },
      { resourceScope: { devices: { ids: new Set(['a']), connectionIds: new Set(['c']) }, commands: undefined } },
    ],
  ])('ends the stream when the key loses %s', async (what, reason, before, after) => {
    const { ended } = await open(what, before);
    edge.keys.add(what, before);
    edge.server.pipeline.calls.keyWatch.recheckOrganization('org-1'); // without a loss the stream stays open
    edge.keys.add(what, after);
    edge.server.pipeline.calls.keyWatch.recheckOrganization('org-1');
    expect(await ended).toBe(reason);
  });

  it('is compared once for all its streams, regardless of how often it was read before they opened', async () => {
    let lookups = 0;
    class Counted extends Set<string> {
      override has(id: string): boolean {
        lookups += 1;
        return super.has(id);
      }
    }
    const createScope = (ids: readonly string[]): ResourceScope => ({
      devices: { ids: new Counted(ids), connectionIds: new Set() },
      commands: undefined,
    });
    const streams = [];
    for (let opened = 0; opened < 20; opened++)
      streams.push(await open('many', { resourceScope: createScope(['a', 'b']) }));
    lookups = 0;
    edge.server.pipeline.calls.keyWatch.recheckOrganization('org-1');
    await new Promise(setImmediate);
    edge.keys.add('many', { resourceScope: createScope(['a', 'b', 'c']) });
    edge.server.pipeline.calls.keyWatch.recheckOrganization('org-1');
    await new Promise(setImmediate);
    edge.keys.add('many', { resourceScope: createScope(['b', 'c']) });
    edge.server.pipeline.calls.keyWatch.recheckOrganization('org-1');
    expect(await Promise.all(streams.map(async ({ ended }) => await ended))).toEqual(
      streams.map(() => 'api_key_restricted'),
    );
    expect(lookups).toBe(2 + 2 + 1);
  });

  it('is compared by the resources that it names', () => {
    const commands: ResourceScope = { devices: undefined, commands: new Set(['x', 'y']) };
    const fewer: ResourceScope = { devices: undefined, commands: new Set(['x']) };
    const one: ResourceScope = { devices: { ids: new Set(['a']), connectionIds: new Set() }, commands: undefined };
    expect([
      isScopeWithin(undefined, undefined),
      isScopeWithin(REACH, undefined),
      isScopeWithin(one, REACH),
      isScopeWithin(fewer, commands),
      isScopeWithin({ ...one, commands: fewer.commands }, commands),
    ]).toEqual([true, true, true, true, true]);
    expect([
      isScopeWithin(undefined, REACH),
      isScopeWithin(REACH, one),
      isScopeWithin(commands, fewer),
      isScopeWithin(one, commands),
      isScopeWithin(commands, one),
    ]).toEqual([false, false, false, false, false]);
  });
});

describe('calls over the rate limit', () => {
  it('get a retry delay over gRPC, also for streams; a call that needs no key is not counted', async () => {
    const edge = await startEdge(services);
    edge.keys.add('key');
    const users = edge.client(UserProfileServiceClient);
    const getPersonalUser = users.getPersonalUser.bind(users);
    expect(await call(getPersonalUser, { organizationId: '' }, FIELDS)).toMatchObject({ id: 'u' });
    edge.keys.busy.add('127.0.0.1');
    expect(await callFails(getPersonalUser, { organizationId: '' }, FIELDS)).toMatchObject({
      code: 8,
      reason: 'rate_limited',
      retryMs: 1500,
    });
    const stream = edge.client(ActuatorCommandServiceClient).watchExecutions(WATCH, headers(FIELDS));
    expect(parseError(await new Promise<ServiceError>((resolve) => stream.once('error', resolve)))).toMatchObject({
      reason: 'rate_limited',
      retryMs: 1500,
    });
    const health = edge.client(HealthClient);
    expect(await call(health.check.bind(health), { service: '' }, {})).toEqual({ status: 1 });
    expect(edge.keys.countedCalls).toBe(3);
    await edge.stop();
  });

  it('get a retry delay over HTTP', async () => {
    const edge = await startRestEdge(services);
    const http = new HttpClient(edge.address, edge.ca, FIELDS);
    expect((await http.get('/api/users/personal')).status).toBe(200);
    edge.keys.busy.add('127.0.0.1');
    const refused = await http.get('/api/users/personal');
    expect(parseHttpError(refused)).toMatchObject({ status: 429, code: 'rate_limited', grpc: 'RESOURCE_EXHAUSTED' });
    expect(refused.headers['retry-after']).toBe('2');
    expect(refused.json).toMatchObject({
      error: {
        details: expect.arrayContaining([
          { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '1.5s' },
        ]) as unknown,
      },
    });
    expect((await http.get('/healthz')).status).toBe(200);
    expect(edge.keys.countedCalls).toBe(2);
    http.close();
    await edge.stop();
  });
});
