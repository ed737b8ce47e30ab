import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createAccessRepositories,
  ApiKeyAuthenticator,
  bootstrap,
  KeyAdministration,
  UserService,
  type Bootstrapped,
} from '../../src/access';
import { hashKey } from '../../src/access/keys/apiKey';
import type { RateLimitOptions } from '../../src/access/keys/rateLimits';
import { openDatabase, UnitOfWork } from '../../src/database';
import { HealthCheckRequest } from '../../src/gen/grpc/health/v1/health';
import { WhoAmIRequest } from '../../src/gen/organization_access_control/access_control_service';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { bindPrincipal, assertScope } from '../../src/api/pipeline/admission';
import { type MethodDescriptor, getApiDescriptors } from '../../src/api/descriptors/descriptors';
import { ActiveCall } from '../../src/api/pipeline/activeCall';
import { quantile } from './latencies';
import { compare, median, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';

const rounds = isShort ? 50 : 400;
const CALLS = 1000;
const PEERS = ['192.0.2.7', '198.51.100.9'];
const NETWORKS = ['10.0.0.0/8', '2001:db8::/32', '198.51.100.0/24', '192.0.2.0/24'];
const RATES: RateLimitOptions = {
  failuresPerMinute: 30,
  requestsPerKeyPerSecond: 0,
  requestsPerAddressPerSecond: 0,
  burstSeconds: 2,
};
const WHO_AM_I = '/organization_access_control.AccessControlService/WhoAmI';

/** Measures the cost of authentication with a warm cache, in parts, and that of calls with and without a key. */
export async function benchAuthentication(): Promise<void> {
  await benchAdmission();
  await benchCalls();
}

/** Measures, in this process, the work between the headers of a call and its message. */
async function benchAdmission(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-'));
  const database = await openDatabase({ url: '', dataDir: folder, log: silentLogger });
  try {
    await database.migrate();
    const uow = new UnitOfWork(database, createAccessRepositories);
    const first = (await bootstrap(uow, systemClock)) as Bootstrapped;
    const limited = await createRestrictedKey(uow, first);
    const descriptor = getApiDescriptors().methods.get(WHO_AM_I) as MethodDescriptor;
    const createAuthenticator = (rates: Partial<RateLimitOptions> = {}): ApiKeyAuthenticator =>
      new ApiKeyAuthenticator({ uow, clock: systemClock, log: silentLogger, rates: { ...RATES, ...rates } });
    const createAdmission =
      (key: string, by: ApiKeyAuthenticator, peers: readonly string[]) =>
      async (at: number): Promise<void> => {
        const peer = peers[at % peers.length] as string;
        const call = new ActiveCall(WHO_AM_I, peer, silentLogger, 0);
        const authenticated = by.authenticate(key, peer);
        const principal = authenticated instanceof Promise ? await authenticated : authenticated;
        by.countCall(principal, peer);
        assertScope(descriptor, principal);
        bindPrincipal(call, principal, [first.organization.id], false);
      };
    print(
      `\nadmission of a call (between its headers and its message), ${rounds} rounds of ${CALLS} calls, alternating`,
    );
    const counted = createAuthenticator({ requestsPerKeyPerSecond: 1_000_000, requestsPerAddressPerSecond: 1_000_000 });
    const rows = await measureAlternately([
      ['hash of the key only', async () => void hashKey(first.key)],
      ['admission with a key', createAdmission(first.key, createAuthenticator(), PEERS.slice(0, 1))],
      [
        '... that expires and is limited to 4 networks',
        createAdmission(limited, createAuthenticator(), PEERS.slice(0, 1)),
      ],
      ['... from two alternating addresses', createAdmission(limited, createAuthenticator(), PEERS)],
      ['... with rate limits per key and per address', createAdmission(first.key, counted, PEERS.slice(0, 1))],
    ]);
    const [, warm] = rows as [number, number];
    print(`  -> admission with a key takes ${(warm / 1000).toFixed(2)} us at the median (goal: under 5.00)`);
  } finally {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const noneMissing = async (): Promise<string[]> => [];

/** Creates a key that expires and is limited to some networks. */
async function createRestrictedKey(
  uow: UnitOfWork<ReturnType<typeof createAccessRepositories>>,
  { organization }: Bootstrapped,
): Promise<string> {
  const users = new UserService({ uow, clock: systemClock });
  const keys = new KeyAdministration({
    uow,
    clock: systemClock,
    users,
    referenceCheckers: { gateways: noneMissing, connections: noneMissing, devices: noneMissing, commands: noneMissing },
    keyChanged: () => {},
  });
  const made = await keys.create(organization.id, {
    name: 'bench',
    scopes: ['devices:read'],
    connectionIds: [],
    allConnections: false,
    expiresAt: Date.now() + 86_400_000,
    isAdmin: false,
    ownerUserId: undefined,
    allowedAddresses: NETWORKS,
  });
  return made.key;
}

/** Prints the median nanoseconds per call of each subject, without the cost of the loop itself. */
async function measureAlternately(
  subjects: readonly (readonly [string, (at: number) => Promise<void>])[],
): Promise<number[]> {
  const nothing = ['', async () => {}] as const;
  const turns = [nothing, ...subjects].map(([name, work]) => ({ name, work, times: [] as number[] }));
  for (let round = 0; round < rounds; round += 1) {
    for (const { work, times } of turns) {
      const before = performance.now();
      for (let at = 0; at < CALLS; at += 1) await work(at);
      times.push(((performance.now() - before) * 1e6) / CALLS);
    }
  }
  const [loop, ...rows] = turns;
  const floor = median(loop?.times ?? []);
  return rows.map(({ name, times }) => {
    const medianNs = median(times) - floor;
    print(
      `  ${name.padEnd(58)}${medianNs.toFixed(0).padStart(7)} ns  p99 of the rounds ${(quantile(times, 0.99) - floor).toFixed(0).padStart(6)} ns`,
    );
    return medianNs;
  });
}

/** For information: the smallest call without a key, and a call with a key that reads three records. */
async function benchCalls(): Promise<void> {
  const server = await PlantroomServer.start({ PLANTROOM_TLS_MODE: 'off' });
  try {
    print('\ncalls, 32 concurrent, alternating');
    const common = { url: server.url, ca: server.ca, concurrency: 32 };
    const [check, who] = [
      HealthCheckRequest.encode(HealthCheckRequest.fromPartial({})).finish(),
      WhoAmIRequest.encode(WhoAmIRequest.fromPartial({})).finish(),
    ];
    await compare(
      [
        {
          name: 'Health/Check, no key needed',
          server: server.process,
          load: { ...common, path: '/grpc.health.v1.Health/Check', headers: {}, message: () => check },
        },
        {
          name: 'WhoAmI, any valid key',
          server: server.process,
          load: { ...common, path: WHO_AM_I, headers: server.headers(), message: () => who },
        },
      ],
      isShort ? 3 : 9,
    );
  } finally {
    await server.remove();
  }
}
