import {
  DigitalDeviceServiceService,
  UpdateDigitalDeviceRequest,
  type DigitalDevice,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import { DomainError } from '../../../src/kernel/errors';
import type { Principal } from '../../../src/kernel/principal';
import type { ResourceScope } from '../../../src/kernel/resourceScope';
import type { Gate } from '../../../src/api/pipeline/gate';
import type { Services } from '../../../src/api/services';
import { startEdge, type FakeAuthenticator } from '../../support/edge';
import { holdGrpc, holdHttp, type HeldCall } from '../../support/heldCall';
import { TestClock } from '../../support/testClock';
import { FIELDS, startRestEdge } from './restEdge';

// Tests unary calls whose message arrives long after the headers, with a key that is revoked, expires or is restricted
// in between.

const { updateDigitalDevice } = DigitalDeviceServiceService;
const KEYS = [
  ['that is cached', 'key'],
  ['that must be read', 'slow-key'],
] as const;
const ID = '01980000-0000-7000-8000-000000000001';
const MESSAGE = UpdateDigitalDeviceRequest.encode(
  UpdateDigitalDeviceRequest.fromPartial({ id: ID, name: 'Valve' }),
).finish();
const ELSEWHERE: ResourceScope = {
  devices: { ids: new Set(['another']), connectionIds: new Set() },
  commands: undefined,
};
const INSIDE: ResourceScope = { devices: { ids: new Set([ID]), connectionIds: new Set() }, commands: undefined };
const AT = Date.UTC(2030, 0, 1);

/**
 * Each case: the change to the key, the status over both protocols, and the key as the handler sees it if the call
 * reaches it.
 */
const CASES: [
  string,
  { readonly now?: Partial<Principal>; readonly isRevoked?: boolean },
  { readonly http: string; readonly grpc: string; readonly seen?: Partial<Principal> },
][] = [
  ['still passes', {}, { http: '200', grpc: '0', seen: {} }],
  ['is rejected after it was revoked', { isRevoked: true }, { http: '401', grpc: '16' }],
  [
    'is rejected after its role lost the scope',
    { now: { scopes: new Set(['devices:read']) } },
    { http: '403', grpc: '7' },
  ],
  [
    'is rejected after its address was disallowed',
    { now: { allowedAddresses: ['192.0.2.1'] } },
    { http: '403', grpc: '7' },
  ],
  ['is rejected outside its new limits', { now: { resourceScope: ELSEWHERE } }, { http: '404', grpc: '5' }],
  [
    'is limited to its current resources',
    { now: { resourceScope: INSIDE } },
    { http: '200', grpc: '0', seen: { resourceScope: INSIDE } },
  ],
  [
    'has the scopes of its current role',
    { now: { isOwner: false, scopes: new Set(['devices:write']) } },
    { http: '200', grpc: '0', seen: { isOwner: false, scopes: new Set(['devices:write']) } },
  ],
  ['expires at its current time', { now: { expiresAt: AT } }, { http: '200', grpc: '0', seen: { expiresAt: AT } }],
];

const clock = new TestClock();
let seen: Principal[];
beforeEach(() => {
  seen = [];
});

const add = (server: Services): void =>
  server.addService(
    { updateDigitalDevice },
    {
      updateDigitalDevice: async (_, { principal }) => {
        seen.push(principal);
        return { id: ID, name: 'Valve', sensors: [], images: [], etag: '"1"' } as unknown as DigitalDevice;
      },
    },
  );

const gate: Gate = {
  assertAccess: async ({ resourceScope }, named) => {
    if (named.some(({ ids }) => ids.some((id) => !resourceScope?.devices?.ids.has(id))))
      throw new DomainError('not_found', 'device_not_found', 'there is no such device');
  },
};

/** Resolves when a key was authenticated. */
const waitForAuthentication = async (keys: FakeAuthenticator): Promise<void> =>
  await new Promise((resolve) => {
    keys.authenticate = (...given) => {
      setImmediate(resolve);
      return Object.getPrototypeOf(keys).authenticate.apply(keys, given);
    };
  });

/** Holds a call, changes its key a minute later, and sends the rest of the call. */
const sendLate = async (
  keys: FakeAuthenticator,
  key: string,
  { now = {}, isRevoked }: (typeof CASES)[number][1],
  open: () => HeldCall,
): Promise<string> => {
  keys.add(key);
  const authenticated = waitForAuthentication(keys);
  const held = open();
  await authenticated;
  clock.advance(60_000);
  keys.add(key, now);
  if (isRevoked) keys.ended.set(key, new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked'));
  const status = await held.finish();
  keys.ended.clear();
  return status;
};

describe.each(KEYS)('a key %s', (_, key) => {
  const fields = { ...FIELDS, 'x-api-key': key };

  it('is checked again when it changes before the body arrives over HTTP', async () => {
    const edge = await startRestEdge(add, { clock, gate });
    for (const [what, change, { http, seen: expected }] of CASES) {
      seen = [];
      edge.keys.countedCalls = 0;
      const status = await sendLate(edge.keys, key, change, () =>
        holdHttp(edge.address, `PATCH /api/v2/devices/${ID}`, fields, '{"name": "Valve"}'),
      );
      // A late message does not count as a second call.
      expect([what, status, edge.keys.countedCalls]).toEqual([what, http, 1]);
      expect(seen).toMatchObject(expected ? [expected] : []);
    }
    await edge.stop();
  });

  it('is checked again when it changes before the message arrives over gRPC', async () => {
    const edge = await startEdge(add, { clock, gate });
    for (const [what, change, { grpc, seen: expected }] of CASES) {
      seen = [];
      edge.keys.countedCalls = 0;
      const status = await sendLate(edge.keys, key, change, () =>
        holdGrpc(edge.address, updateDigitalDevice.path, fields, MESSAGE),
      );
      expect([what, status, edge.keys.countedCalls]).toEqual([what, grpc, 1]);
      expect(seen).toMatchObject(expected ? [expected] : []);
    }
    await edge.stop();
  });
});
