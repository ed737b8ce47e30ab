import type { Readable } from 'node:stream';
import type { ServiceError } from '@grpc/grpc-js';
import { ActuatorCommandServiceClient, ActuatorCommandServiceService, type WatchExecutionsRequest, type WatchExecutionsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { UserProfileServiceClient, UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import { HealthClient } from '../../src/gen/grpc/health/v1/health';
import { DomainError } from '../../src/kernel/errors';
import type { Principal } from '../../src/kernel/principal';
import { isWithinReach, type Reach } from '../../src/kernel/reach';
import type { Services } from '../../src/rpc/services';
import { FIELDS, startRestEdge } from '../rest/restEdge';
import { call, callFails, headers, seen, startEdge, type TestEdge } from '../support/edge';
import { HttpClient, seenHttp } from '../support/http';

const WATCH: WatchExecutionsRequest = { organizationId: '', id: undefined, executionId: undefined, resumeToken: '', endsWhenFinal: false };
const REACH: Reach = { devices: { ids: new Set(['a', 'b']), connectionIds: new Set(['c']) }, commands: undefined };
const LONG = 4000;

const services = (server: Services): void => {
  server.add({ watchExecutions: ActuatorCommandServiceService.watchExecutions }, {
    watchExecutions: async function* (_, { signal }): AsyncGenerator<WatchExecutionsResponse> {
      yield { execution: undefined, event: undefined, resumeToken: '1' };
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
  });
  server.add(UserProfileServiceService, { getPersonalUser: async () => ({ id: 'u', name: 'n', email: '', createdAt: undefined, updatedAt: undefined, memberships: [] }) });
};

describe('the key of an open stream', () => {
  let edge: TestEdge;
  let watches: ActuatorCommandServiceClient;
  beforeAll(async () => {
    edge = await startEdge(services, { keyRecheckMs: LONG });
    watches = edge.client(ActuatorCommandServiceClient);
  });
  afterAll(() => edge.stop());

  /** Opens a stream; its end, once it shows the first answer. */
  const open = async (key: string, overrides: Partial<Principal> = {}): Promise<{ ended: Promise<string | undefined> }> => {
    edge.keys.add(key, overrides);
    const stream: Readable = watches.watchExecutions(WATCH, headers({ ...FIELDS, 'x-api-key': key }));
    const ended = new Promise<string | undefined>((resolve) => stream.on('error', (error: ServiceError) => resolve(seen(error).reason)));
    await new Promise((resolve) => stream.once('data', resolve));
    stream.resume();
    return { ended };
  };

  it('ends it when its time is over, not when it is looked at next, however late that became known', async () => {
    const before = performance.now();
    const [known, later] = [await open('ends', { expiresAt: Date.now() + 300 }), await open('rotated')];
    edge.keys.add('rotated', { expiresAt: Date.now() + 300 });
    edge.server.keyChanged('rotated');
    expect(await Promise.all([known.ended, later.ended])).toEqual(['api_key_expired', 'api_key_expired']);
    expect(performance.now() - before).toBeLessThan(LONG);
  });

  it('ends it by the clock when its time is over, though the database cannot say anything', async () => {
    const recheck = jest.spyOn(edge.keys, 'recheck').mockImplementation(async () => await new Promise(() => {}));
    const { ended } = await open('unreadable', { expiresAt: Date.now() + 300 });
    edge.server.keyChanged('unreadable');
    expect(await ended).toBe('api_key_expired');
    recheck.mockRestore();
  });

  it('is looked at once at a time and once more after that, and for changes of its own organization alone', async () => {
    const { ended } = await open('flooded', { organizationId: 'org-1' });
    const looks: PromiseWithResolvers<Principal>[] = [];
    const recheck = jest.spyOn(edge.keys, 'recheck').mockImplementation(async () => {
      looks.push(Promise.withResolvers());
      return await (looks.at(-1) as PromiseWithResolvers<Principal>).promise;
    });
    edge.server.accessChanged('org-2');
    expect(looks).toHaveLength(0);
    for (let change = 0; change < 100; change += 1) edge.server.accessChanged('org-1');
    expect(looks).toHaveLength(1);
    looks[0]?.resolve(edge.keys.keys.get('flooded') as Principal);
    await new Promise(setImmediate);
    expect(looks).toHaveLength(2);
    recheck.mockRestore();
    looks[1]?.reject(new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked'));
    expect(await ended).toBe('api_key_revoked');
  });

  it.each<[string, string, Partial<Principal>, Partial<Principal>]>([
    ['the scope of its method', 'scope_missing', {}, { scopes: new Set(['devices:read']) }],
    ['the address of its caller', 'address_not_allowed', { allowedAddresses: ['127.0.0.1'] }, { allowedAddresses: ['192.0.2.1'] }],
    ['the whole organization', 'api_key_restricted', {}, { reach: REACH }],
    ['some devices', 'api_key_restricted', { reach: REACH }, { reach: { devices: { ids: new Set(['a']), connectionIds: new Set(['c']) }, commands: undefined } }],
  ])('ends it when the key loses %s', async (what, reason, before, after) => {
    const { ended } = await open(what, before);
    edge.keys.add(what, before);
    edge.server.accessChanged('org-1'); // nothing is lost: it stays
    edge.keys.add(what, after);
    edge.server.accessChanged('org-1');
    expect(await ended).toBe(reason);
  });

  it('is compared once for all of its streams, however often it was read before they were opened', async () => {
    let looks = 0;
    class Counted extends Set<string> {
      override has(id: string): boolean {
        looks += 1;
        return super.has(id);
      }
    }
    const reach = (ids: readonly string[]): Reach => ({ devices: { ids: new Counted(ids), connectionIds: new Set() }, commands: undefined });
    const streams = [];
    for (let opened = 0; opened < 20; opened++) streams.push(await open('many', { reach: reach(['a', 'b']) }));
    looks = 0;
    edge.server.accessChanged('org-1');
    await new Promise(setImmediate);
    edge.keys.add('many', { reach: reach(['a', 'b', 'c']) });
    edge.server.accessChanged('org-1');
    await new Promise(setImmediate);
    edge.keys.add('many', { reach: reach(['b', 'c']) });
    edge.server.accessChanged('org-1');
    expect(await Promise.all(streams.map(async ({ ended }) => await ended))).toEqual(streams.map(() => 'api_key_restricted'));
    expect(looks).toBe(2 + 2 + 1);
  });

  it('is compared by what it names', () => {
    const commands: Reach = { devices: undefined, commands: new Set(['x', 'y']) };
    const fewer: Reach = { devices: undefined, commands: new Set(['x']) };
    const one: Reach = { devices: { ids: new Set(['a']), connectionIds: new Set() }, commands: undefined };
    expect([isWithinReach(undefined, undefined), isWithinReach(REACH, undefined), isWithinReach(one, REACH), isWithinReach(fewer, commands), isWithinReach({ ...one, commands: fewer.commands }, commands)]).toEqual([true, true, true, true, true]);
    expect([isWithinReach(undefined, REACH), isWithinReach(REACH, one), isWithinReach(commands, fewer), isWithinReach(one, commands), isWithinReach(commands, one)]).toEqual([false, false, false, false, false]);
  });
});

describe('calls that are too many', () => {
  it('are told when to try again over gRPC, streams too; a call that needs no key is not counted', async () => {
    const edge = await startEdge(services);
    edge.keys.add('key');
    const users = edge.client(UserProfileServiceClient);
    const getPersonalUser = users.getPersonalUser.bind(users);
    expect(await call(getPersonalUser, { organizationId: '' }, FIELDS)).toMatchObject({ id: 'u' });
    edge.keys.busy.add('127.0.0.1');
    expect(await callFails(getPersonalUser, { organizationId: '' }, FIELDS)).toMatchObject({ code: 8, reason: 'rate_limited', retryMs: 1500 });
    const stream = edge.client(ActuatorCommandServiceClient).watchExecutions(WATCH, headers(FIELDS));
    expect(seen(await new Promise<ServiceError>((resolve) => stream.once('error', resolve)))).toMatchObject({ reason: 'rate_limited', retryMs: 1500 });
    const health = edge.client(HealthClient);
    expect(await call(health.check.bind(health), { service: '' }, {})).toEqual({ status: 1 });
    expect(edge.keys.counted).toBe(3);
    await edge.stop();
  });

  it('are told when to try again over HTTP', async () => {
    const edge = await startRestEdge(services);
    const http = new HttpClient(edge.address, edge.ca, FIELDS);
    expect((await http.get('/api/users/personal')).status).toBe(200);
    edge.keys.busy.add('127.0.0.1');
    const refused = await http.get('/api/users/personal');
    expect(seenHttp(refused)).toMatchObject({ status: 429, code: 'rate_limited', grpc: 'RESOURCE_EXHAUSTED' });
    expect(refused.headers['retry-after']).toBe('2');
    expect(refused.json).toMatchObject({ error: { details: expect.arrayContaining([{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '1.5s' }]) as unknown } });
    expect((await http.get('/healthz')).status).toBe(200);
    expect(edge.keys.counted).toBe(2);
    http.close();
    await edge.stop();
  });
});
