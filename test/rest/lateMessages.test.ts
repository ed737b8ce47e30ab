import { DigitalDeviceServiceService, UpdateDigitalDeviceRequest, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { DomainError } from '../../src/kernel/errors';
import type { Principal } from '../../src/kernel/principal';
import type { Reach } from '../../src/kernel/reach';
import type { Gate } from '../../src/rpc/gate';
import type { Services } from '../../src/rpc/services';
import { startEdge, type FakeAuthenticator } from '../support/edge';
import { heldGrpc, heldHttp, type HeldCall } from '../support/heldCall';
import { TestClock } from '../support/testClock';
import { FIELDS, startRestEdge } from './restEdge';

// A unary call whose message comes long after its headers, with a key that ends, or may do less, between them.

const { updateDigitalDevice } = DigitalDeviceServiceService;
const KEYS = [['known by heart', 'key'], ['that has to be read', 'slow-key']] as const;
const ID = '01980000-0000-7000-8000-000000000001';
const MESSAGE = UpdateDigitalDeviceRequest.encode(UpdateDigitalDeviceRequest.fromPartial({ id: ID, name: 'Valve' })).finish();
const ELSEWHERE: Reach = { devices: { ids: new Set(['another']), connectionIds: new Set() }, commands: undefined };
const INSIDE: Reach = { devices: { ids: new Set([ID]), connectionIds: new Set() }, commands: undefined };
const AT = Date.UTC(2030, 0, 1);

/** What happens to the key, what both protocols answer, and what the handler sees of the key if the call comes to it. */
const CASES: [string, { readonly now?: Partial<Principal>; readonly isRevoked?: boolean }, { readonly http: string; readonly grpc: string; readonly seen?: Partial<Principal> }][] = [
  ['still passes', {}, { http: '200', grpc: '0', seen: {} }],
  ['is refused once it was revoked', { isRevoked: true }, { http: '401', grpc: '16' }],
  ['is refused once its role does not hold the scope any more', { now: { scopes: new Set(['devices:read']) } }, { http: '403', grpc: '7' }],
  ['is refused once it may not be used from the address', { now: { allowedAddresses: ['192.0.2.1'] } }, { http: '403', grpc: '7' }],
  ['is refused what it does not reach any more', { now: { reach: ELSEWHERE } }, { http: '404', grpc: '5' }],
  ['does what it is limited to now', { now: { reach: INSIDE } }, { http: '200', grpc: '0', seen: { reach: INSIDE } }],
  ['does what its role holds now', { now: { roleId: 'admin', scopes: new Set(['devices:write']) } }, { http: '200', grpc: '0', seen: { roleId: 'admin', scopes: new Set(['devices:write']) } }],
  ['gives no longer a life than it has now', { now: { expiresAt: AT } }, { http: '200', grpc: '0', seen: { expiresAt: AT } }],
];

const clock = new TestClock();
let seen: Principal[];
beforeEach(() => {
  seen = [];
});

const add = (server: Services): void =>
  server.add({ updateDigitalDevice }, {
    updateDigitalDevice: async (_, { principal }) => {
      seen.push(principal);
      return { id: ID, name: 'Valve', sensors: [], images: [], etag: '"1"' } as unknown as DigitalDevice;
    },
  });

const gate: Gate = {
  pass: async ({ reach }, named) => {
    if (named.some(({ ids }) => ids.some((id) => !reach?.devices?.ids.has(id)))) throw new DomainError('not_found', 'device_not_found', 'there is no such device');
  },
};

/** Resolves when a key was asked for. */
const asked = async (keys: FakeAuthenticator): Promise<void> =>
  await new Promise((resolve) => {
    keys.authenticate = (...given) => {
      setImmediate(resolve);
      return Object.getPrototypeOf(keys).authenticate.apply(keys, given);
    };
  });

/** Holds a call, changes its key a minute later, and sends the rest. */
const late = async (keys: FakeAuthenticator, key: string, { now = {}, isRevoked }: (typeof CASES)[number][1], open: () => HeldCall): Promise<string> => {
  keys.add(key);
  const enters = asked(keys);
  const held = open();
  await enters;
  clock.advance(60_000);
  keys.add(key, now);
  if (isRevoked) keys.ended.set(key, new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked'));
  const status = await held.finish();
  keys.ended.clear();
  return status;
};

describe.each(KEYS)('a key %s', (_, key) => {
  const fields = { ...FIELDS, 'x-api-key': key };

  it('that changes before the body comes, over HTTP', async () => {
    const edge = await startRestEdge(add, { clock, gate });
    for (const [what, change, { http, seen: expected }] of CASES) {
      seen = [];
      edge.keys.counted = 0;
      const status = await late(edge.keys, key, change, () => heldHttp(edge.address, `PATCH /api/v2/devices/${ID}`, fields, '{"name": "Valve"}'));
      expect([what, status, edge.keys.counted]).toEqual([what, http, 1]); // a late message is no second call
      expect(seen).toMatchObject(expected ? [expected] : []);
    }
    await edge.stop();
  });

  it('that changes before the message comes, over gRPC', async () => {
    const edge = await startEdge(add, { clock, gate });
    for (const [what, change, { grpc, seen: expected }] of CASES) {
      seen = [];
      edge.keys.counted = 0;
      const status = await late(edge.keys, key, change, () => heldGrpc(edge.address, updateDigitalDevice.path, fields, MESSAGE));
      expect([what, status, edge.keys.counted]).toEqual([what, grpc, 1]);
      expect(seen).toMatchObject(expected ? [expected] : []);
    }
    await edge.stop();
  });
});
