import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accessRepositories, Authentication, bootstrap, KeyAdministration, UserService, type Bootstrapped } from '../../src/access';
import { hashKey } from '../../src/access/keys/apiKey';
import type { Rates } from '../../src/access/keys/rateLimits';
import { openDatabase, UnitOfWork } from '../../src/database';
import { HealthCheckRequest } from '../../src/gen/grpc/health/v1/health';
import { WhoAmIRequest } from '../../src/gen/organization_access_control/access_control_service';
import { asset } from '../../src/kernel/assets';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { admit, enter } from '../../src/rpc/admission';
import { Descriptors, type MethodFacts } from '../../src/rpc/descriptors';
import { OpenCall } from '../../src/rpc/openCall';
import { compare, median, quantile, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';

const rounds = short ? 50 : 400;
const CALLS = 1000;
const PEERS = ['192.0.2.7', '198.51.100.9'];
const NETWORKS = ['10.0.0.0/8', '2001:db8::/32', '198.51.100.0/24', '192.0.2.0/24'];
const RATES: Rates = { failedPerMinute: 30, callsPerKeyPerSecond: 0, callsPerPeerPerSecond: 0, burstSeconds: 2 };
const WHO_AM_I = '/organization_access_control.AccessControlService/WhoAmI';

/** What authentication adds to a call with a warm cache, piece by piece, and what calls without and with a key cost on a server. */
export async function benchAuthentication(): Promise<void> {
  await pieces();
  await calls();
}

/** Everything that is done between the headers of a call and its message, in this process. */
async function pieces(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-'));
  const database = await openDatabase({ url: '', dataDir: folder, log: silentLogger });
  try {
    await database.migrate();
    const uow = new UnitOfWork(database, accessRepositories);
    const first = (await bootstrap(uow, systemClock)) as Bootstrapped;
    const limited = await limitedKey(uow, first);
    const facts = new Descriptors(asset('image.binpb')).methods.get(WHO_AM_I) as MethodFacts;
    const authentication = (rates: Partial<Rates> = {}): Authentication => new Authentication({ uow, clock: systemClock, log: silentLogger, rates: { ...RATES, ...rates } });
    const admission = (key: string, by: Authentication, peers: readonly string[]) => async (at: number): Promise<void> => {
      const peer = peers[at % peers.length] as string;
      const call = new OpenCall(WHO_AM_I, peer, silentLogger, 0);
      const principal = admit(by, facts, key, peer);
      const known = principal instanceof Promise ? await principal : principal;
      if (known) enter(call, known, [first.organization.id], false);
    };
    say(`\nbetween the headers of a call and its message, ${rounds} times ${CALLS} calls, in turns`);
    const counted = authentication({ callsPerKeyPerSecond: 1_000_000, callsPerPeerPerSecond: 1_000_000 });
    const rows = await inTurns([
      ['the hash of the key alone', async () => void hashKey(first.key)],
      ['admission without a key (scope none)', async () => void admit(counted, { ...facts, scope: 'none' }, undefined, PEERS[0] as string)],
      ['admission with a key', admission(first.key, authentication(), PEERS.slice(0, 1))],
      ['... that ends, and is limited to 4 networks', admission(limited, authentication(), PEERS.slice(0, 1))],
      ['... from two addresses in turn', admission(limited, authentication(), PEERS)],
      ['... with limits of calls by key and by peer', admission(first.key, counted, PEERS.slice(0, 1))],
    ]);
    const [, without, warm] = rows as [number, number, number];
    say(`  -> a key adds ${((warm - without) / 1000).toFixed(2)} us to a call at the median (goal: under 5.00)`);
  } finally {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const none = async (): Promise<string[]> => [];

/** A key that ends some day and may be used from some networks. */
async function limitedKey(uow: UnitOfWork<ReturnType<typeof accessRepositories>>, { organization }: Bootstrapped): Promise<string> {
  const users = new UserService({ uow, clock: systemClock });
  const keys = new KeyAdministration({ uow, clock: systemClock, users, missing: { gateways: none, connections: none, devices: none, commands: none }, keyChanged: () => {} });
  const made = await keys.create(organization.id, { name: 'bench', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: Date.now() + 86_400_000, isAdmin: false, ownerUserId: undefined, allowedAddresses: NETWORKS });
  return made.key;
}

/** Prints the nanoseconds of one call of each, as the median of all rounds, less what the loop itself costs. */
async function inTurns(subjects: readonly (readonly [string, (at: number) => Promise<void>])[]): Promise<number[]> {
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
    const middle = median(times) - floor;
    say(`  ${name.padEnd(58)}${middle.toFixed(0).padStart(7)} ns  of 99 in 100 rounds at most ${(quantile(times, 0.99) - floor).toFixed(0).padStart(6)} ns`);
    return middle;
  });
}

/** For information: the smallest call without a key, and one with a key that reads three records. */
async function calls(): Promise<void> {
  const server = await PlantroomServer.start({ PLANTROOM_TLS_MODE: 'off' });
  try {
    say('\ncalls, 32 at once, in turns');
    const common = { url: server.url, ca: server.ca, concurrency: 32 };
    const [check, who] = [HealthCheckRequest.encode(HealthCheckRequest.fromPartial({})).finish(), WhoAmIRequest.encode(WhoAmIRequest.fromPartial({})).finish()];
    await compare([
      { name: 'Health/Check, no key needed', server: server.process, load: { ...common, path: '/grpc.health.v1.Health/Check', headers: {}, message: () => check } },
      { name: 'WhoAmI, a key of whatever scope', server: server.process, load: { ...common, path: WHO_AM_I, headers: server.headers(), message: () => who } },
    ], short ? 3 : 9);
  } finally {
    await server.remove();
  }
}
