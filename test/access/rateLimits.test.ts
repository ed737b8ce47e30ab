import { Authentication } from '../../src/access';
import { newKeyText } from '../../src/access/keys/apiKey';
import { KnownKeyRepository } from '../../src/access/keys/knownKeyRepository';
import type { Rates } from '../../src/access/keys/rateLimits';
import { TokenBuckets } from '../../src/access/keys/tokenBuckets';
import type { DomainError } from '../../src/kernel/errors';
import { KeyRefused, KeyUnknown } from '../../src/kernel/principal';
import { engines } from '../support/engines';
import { planOf } from '../support/planOf';
import { TestClock } from '../support/testClock';
import { startAccessRoom, type AccessRoom } from './accessRoom';

const PEER = '192.0.2.7';
const MINUTE = 60_000;

/** Why an attempt failed; undefined: it did not. */
async function attempt(authentication: Authentication, key: string | undefined, peer = PEER): Promise<DomainError | undefined> {
  try {
    await authentication.authenticate(key, peer);
    return undefined;
  } catch (error) {
    return error as DomainError;
  }
}

describe('token buckets', () => {
  it('give as many as they hold at once, then one whenever it has come back', () => {
    const clock = new TestClock();
    const buckets = new TokenBuckets(clock, 0.5, 3);
    expect([1, 2, 3].map(() => buckets.take('a'))).toEqual([0, 0, 0]);
    const wait = buckets.take('a');
    expect(wait).toBeLessThanOrEqual(2000);
    expect(wait).toBeGreaterThan(1990);
    expect(buckets.take('b')).toBe(0);
    clock.advance(wait);
    expect(buckets.take('a')).toBe(0);
    expect(buckets.take('a')).toBeGreaterThan(1990);
    clock.advance(MINUTE);
    expect([1, 2, 3].map(() => buckets.take('a'))).toEqual([0, 0, 0]);
    expect(buckets.take('a')).toBeGreaterThan(0);
  });

  it('remember 10,000 names, and let go the one that was not asked for longest', () => {
    const buckets = new TokenBuckets(new TestClock(), 0.001, 1);
    buckets.take('first');
    buckets.take('second');
    for (let name = 0; name < 9998; name += 1) buckets.take(String(name));
    expect(buckets.take('first')).toBeGreaterThan(0);
    buckets.take('one more');
    expect(buckets.take('first')).toBeGreaterThan(0);
    expect(buckets.take('second')).toBe(0);
  });
});

describe.each(engines())('limits of rate on $name', (engine) => {
  let room: AccessRoom;
  beforeAll(async () => {
    room = await startAccessRoom(engine);
  });
  afterAll(async () => await room.stop());

  const limited = (rates: Partial<Rates>): Authentication => new Authentication({ uow: room.uow, clock: room.clock, log: room.log, rates: { failedPerMinute: 0, callsPerKeyPerSecond: 0, callsPerPeerPerSecond: 0, burstSeconds: 2, ...rates } });

  it('tell a peer why some attempts failed, then only that there are too many, while a good key of it passes', async () => {
    const authentication = limited({ failedPerMinute: 6 });
    const { key } = await room.key();
    const unknown = newKeyText();
    const reasons: (string | undefined)[] = [];
    for (const wrong of [undefined, `${unknown}x`, unknown, newKeyText(), '', unknown, newKeyText(), undefined]) reasons.push((await attempt(authentication, wrong))?.reason);
    expect(reasons).toEqual(['api_key_missing', 'api_key_invalid', 'api_key_invalid', 'api_key_invalid', 'api_key_missing', 'api_key_invalid', 'rate_limited', 'rate_limited']);
    expect(await attempt(authentication, key)).toBeUndefined();
    const told = await attempt(authentication, unknown);
    expect(told).toBeInstanceOf(KeyUnknown);
    expect(told).toMatchObject({ kind: 'exhausted', keyPrefix: unknown.slice(0, 10) });
    expect(told?.retryAfterMs).toBeGreaterThan(0);
    expect(told?.retryAfterMs).toBeLessThanOrEqual(10_000);
    expect((await attempt(authentication, undefined, '192.0.2.8'))?.reason).toBe('api_key_missing');
    room.clock.advance(told?.retryAfterMs ?? 0);
    expect((await attempt(authentication, undefined))?.reason).toBe('api_key_missing');
    expect((await attempt(authentication, undefined))?.reason).toBe('rate_limited');
    expect(await attempt(authentication, key)).toBeUndefined();
  });

  it('count the addresses of one /64 together, however they are written', async () => {
    const authentication = limited({ failedPerMinute: 3 });
    const reason = async (peer: string): Promise<string | undefined> => (await attempt(authentication, undefined, peer))?.reason;
    for (const peer of ['2001:db8:0:7::1', '2001:0db8::7:aaaa:0:0:1', '2001:db8:0:7:ffff:1:2:3%eth0']) expect(await reason(peer)).toBe('api_key_missing');
    expect(await reason('2001:db8:0:7::2')).toBe('rate_limited');
    for (const peer of ['2001:db8:0:8::1', '::1', 'fe80::1']) expect(await reason(peer)).toBe('api_key_missing');
  });

  it('count the failures of a key that is known, wherever from, and say whose it was', async () => {
    const authentication = limited({ failedPerMinute: 3 });
    const { id, key } = await room.key({ allowedAddresses: [PEER] });
    const revoked = await room.key();
    await room.keys.revoke(room.first.organization.id, revoked.id);
    for (let peer = 1; peer <= 3; peer += 1) expect((await attempt(authentication, key, `198.51.100.${peer}`))?.reason).toBe('address_not_allowed');
    const told = await attempt(authentication, key, '198.51.100.4');
    expect(told).toBeInstanceOf(KeyRefused);
    expect(told).toMatchObject({ reason: 'rate_limited', key: { keyId: id } });
    expect(await attempt(authentication, key)).toBeUndefined();
    expect((await attempt(authentication, revoked.key, '198.51.100.5'))?.reason).toBe('api_key_revoked');
  });

  it('count calls by key and by peer', async () => {
    const reasonOf = (authentication: Authentication, peer = PEER): unknown => {
      try {
        authentication.countCall(principal, peer);
        return undefined;
      } catch (error) {
        return [(error as KeyRefused).reason, (error as KeyRefused).retryAfterMs, (error as KeyRefused).key.keyId];
      }
    };
    const principal = await room.authentication.authenticate(room.first.key, PEER);
    const byKey = limited({ callsPerKeyPerSecond: 2 });
    expect([1, 2, 3, 4].map((n) => reasonOf(byKey, `192.0.2.${n}`))).toEqual([undefined, undefined, undefined, undefined]);
    expect(reasonOf(byKey)).toEqual(['rate_limited', 500, principal.keyId]);
    room.clock.advance(500);
    expect([reasonOf(byKey), reasonOf(byKey)]).toEqual([undefined, ['rate_limited', 500, principal.keyId]]);
    const byPeer = limited({ callsPerPeerPerSecond: 1, burstSeconds: 1 });
    expect([reasonOf(byPeer), reasonOf(byPeer), reasonOf(byPeer, '192.0.2.8')]).toEqual([undefined, ['rate_limited', 1000, principal.keyId], undefined]);
    const both = limited({ callsPerKeyPerSecond: 1, callsPerPeerPerSecond: 3, burstSeconds: 1 });
    for (let call = 0; call < 100; call += 1) expect(reasonOf(both)).toEqual(call === 0 ? undefined : ['rate_limited', 1000, principal.keyId]);
    both.countCall({ ...principal, keyId: 'another key of the same address' }, PEER);
    both.countCall({ ...principal, keyId: 'one more' }, PEER);
    expect(() => both.countCall({ ...principal, keyId: 'too many for the address' }, PEER)).toThrow(expect.objectContaining({ reason: 'rate_limited' }) as Error);
    const free = limited({});
    for (let call = 0; call < 1000; call += 1) expect(reasonOf(free)).toBeUndefined();
  });

  it('read many keys that nobody knows in few queries, one that comes again not at all, and a good one among them', async () => {
    const authentication = limited({ failedPerMinute: 1 });
    const { key } = await room.key();
    const reads = jest.spyOn(KnownKeyRepository.prototype, 'findByHashes');
    const flood = Array.from({ length: 200 }, () => newKeyText());
    const answers = await Promise.all([...flood, key, ...flood].map(async (one) => (await attempt(authentication, one))?.reason));
    expect(answers[200]).toBeUndefined();
    expect(answers.filter((reason) => reason === 'rate_limited')).toHaveLength(399);
    expect(reads.mock.calls.length).toBeLessThanOrEqual(8);
    reads.mockClear();
    for (const one of flood) await attempt(authentication, one);
    expect(reads).not.toHaveBeenCalled();
    room.clock.advance(1000);
    await attempt(authentication, flood[0]);
    expect(reads).toHaveBeenCalledTimes(1);
    reads.mockRestore();
  });

  it('read keys by their hashes, and the member, the role and the organization by their ids', async () => {
    for (const hashes of [['a'], ['a', 'b']]) {
      const plan = await planOf(room.db.database, async (db) => await new KnownKeyRepository(db).findByHashes(hashes));
      expect(plan).not.toMatch(/Seq Scan|SCAN /);
    }
  });
});
