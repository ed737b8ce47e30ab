import { ApiKeyAuthenticator } from '../../src/access';
import { newKeyText } from '../../src/access/keys/apiKey';
import { KnownKeyRepository } from '../../src/access/keys/knownKeyRepository';
import type { RateLimitOptions } from '../../src/access/keys/rateLimits';
import { TokenBuckets } from '../../src/access/keys/tokenBuckets';
import type { DomainError } from '../../src/kernel/errors';
import { ApiKeyRejectedError, UnknownApiKeyError } from '../../src/kernel/principal';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { TestClock } from '../support/testClock';
import { startAccessFixture, type AccessFixture } from './accessFixture';

const PEER = '192.0.2.7';
const MINUTE = 60_000;

/** Returns why an attempt failed, or undefined if it succeeded. */
async function attempt(
  authentication: ApiKeyAuthenticator,
  key: string | undefined,
  peer = PEER,
): Promise<DomainError | undefined> {
  try {
    await authentication.authenticate(key, peer);
    return undefined;
  } catch (error) {
    return error as DomainError;
  }
}

describe('token buckets', () => {
  it('give as many tokens as they hold at once, then one after each refill', () => {
    const clock = new TestClock();
    const buckets = new TokenBuckets(clock, 0.5, 3);
    expect([1, 2, 3].map(() => buckets.takeToken('a'))).toEqual([0, 0, 0]);
    const wait = buckets.takeToken('a');
    expect(wait).toBeLessThanOrEqual(2000);
    expect(wait).toBeGreaterThan(1990);
    expect(buckets.takeToken('b')).toBe(0);
    clock.advance(wait);
    expect(buckets.takeToken('a')).toBe(0);
    expect(buckets.takeToken('a')).toBeGreaterThan(1990);
    clock.advance(MINUTE);
    expect([1, 2, 3].map(() => buckets.takeToken('a'))).toEqual([0, 0, 0]);
    expect(buckets.takeToken('a')).toBeGreaterThan(0);
  });

  it('remember 10,000 names, and evict the least recently used one', () => {
    const buckets = new TokenBuckets(new TestClock(), 0.001, 1);
    buckets.takeToken('first');
    buckets.takeToken('second');
    for (let name = 0; name < 9998; name += 1) buckets.takeToken(String(name));
    expect(buckets.takeToken('first')).toBeGreaterThan(0);
    buckets.takeToken('one more');
    expect(buckets.takeToken('first')).toBeGreaterThan(0);
    expect(buckets.takeToken('second')).toBe(0);
  });
});

describe.each(engines())('rate limits on $name', (engine) => {
  let fixture: AccessFixture;
  beforeAll(async () => {
    fixture = await startAccessFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  const limited = (rates: Partial<RateLimitOptions>): ApiKeyAuthenticator =>
    new ApiKeyAuthenticator({
      uow: fixture.uow,
      clock: fixture.clock,
      log: fixture.log,
      rates: {
        failuresPerMinute: 0,
        requestsPerKeyPerSecond: 0,
        requestsPerAddressPerSecond: 0,
        burstSeconds: 2,
        ...rates,
      },
    });

  it('give a peer the reasons of some failed attempts, then only report too many, while a valid key of it passes', async () => {
    const authentication = limited({ failuresPerMinute: 6 });
    const { key } = await fixture.createKey();
    const unknown = newKeyText();
    const reasons: (string | undefined)[] = [];
    for (const wrong of [undefined, `${unknown}x`, unknown, newKeyText(), '', unknown, newKeyText(), undefined])
      reasons.push((await attempt(authentication, wrong))?.reason);
    expect(reasons).toEqual([
      'api_key_missing',
      'api_key_invalid',
      'api_key_invalid',
      'api_key_invalid',
      'api_key_missing',
      'api_key_invalid',
      'rate_limited',
      'rate_limited',
    ]);
    expect(await attempt(authentication, key)).toBeUndefined();
    const rejection = await attempt(authentication, unknown);
    expect(rejection).toBeInstanceOf(UnknownApiKeyError);
    expect(rejection).toMatchObject({ kind: 'exhausted', keyPrefix: unknown.slice(0, 10) });
    expect(rejection?.retryAfterMs).toBeGreaterThan(0);
    expect(rejection?.retryAfterMs).toBeLessThanOrEqual(10_000);
    expect((await attempt(authentication, undefined, '192.0.2.8'))?.reason).toBe('api_key_missing');
    fixture.clock.advance(rejection?.retryAfterMs ?? 0);
    expect((await attempt(authentication, undefined))?.reason).toBe('api_key_missing');
    expect((await attempt(authentication, undefined))?.reason).toBe('rate_limited');
    expect(await attempt(authentication, key)).toBeUndefined();
  });

  it('count the addresses of one /64 together, in any notation', async () => {
    const authentication = limited({ failuresPerMinute: 3 });
    const reason = async (peer: string): Promise<string | undefined> =>
      (await attempt(authentication, undefined, peer))?.reason;
    for (const peer of ['2001:db8:0:7::1', '2001:0db8::7:aaaa:0:0:1', '2001:db8:0:7:ffff:1:2:3%eth0'])
      expect(await reason(peer)).toBe('api_key_missing');
    expect(await reason('2001:db8:0:7::2')).toBe('rate_limited');
    for (const peer of ['2001:db8:0:8::1', '::1', 'fe80::1']) expect(await reason(peer)).toBe('api_key_missing');
  });

  it('count the failures of a known key from all addresses, and report whose key it was', async () => {
    const authentication = limited({ failuresPerMinute: 3 });
    const { id, key } = await fixture.createKey({ allowedAddresses: [PEER] });
    const revoked = await fixture.createKey();
    await fixture.keys.revoke(fixture.first.organization.id, revoked.id);
    for (let peer = 1; peer <= 3; peer += 1)
      expect((await attempt(authentication, key, `198.51.100.${peer}`))?.reason).toBe('address_not_allowed');
    const rejection = await attempt(authentication, key, '198.51.100.4');
    expect(rejection).toBeInstanceOf(ApiKeyRejectedError);
    expect(rejection).toMatchObject({ reason: 'rate_limited', key: { keyId: id } });
    expect(await attempt(authentication, key)).toBeUndefined();
    expect((await attempt(authentication, revoked.key, '198.51.100.5'))?.reason).toBe('api_key_revoked');
  });

  it('count calls by key and by peer', async () => {
    const getReason = (authentication: ApiKeyAuthenticator, peer = PEER): unknown => {
      try {
        authentication.countCall(principal, peer);
        return undefined;
      } catch (error) {
        return [
          (error as ApiKeyRejectedError).reason,
          (error as ApiKeyRejectedError).retryAfterMs,
          (error as ApiKeyRejectedError).key.keyId,
        ];
      }
    };
    const principal = await fixture.authentication.authenticate(fixture.first.key, PEER);
    const byKey = limited({ requestsPerKeyPerSecond: 2 });
    expect([1, 2, 3, 4].map((n) => getReason(byKey, `192.0.2.${n}`))).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(getReason(byKey)).toEqual(['rate_limited', 500, principal.keyId]);
    fixture.clock.advance(500);
    expect([getReason(byKey), getReason(byKey)]).toEqual([undefined, ['rate_limited', 500, principal.keyId]]);
    const byPeer = limited({ requestsPerAddressPerSecond: 1, burstSeconds: 1 });
    expect([getReason(byPeer), getReason(byPeer), getReason(byPeer, '192.0.2.8')]).toEqual([
      undefined,
      ['rate_limited', 1000, principal.keyId],
      undefined,
    ]);
    const both = limited({ requestsPerKeyPerSecond: 1, requestsPerAddressPerSecond: 3, burstSeconds: 1 });
    for (let call = 0; call < 100; call += 1)
      expect(getReason(both)).toEqual(call === 0 ? undefined : ['rate_limited', 1000, principal.keyId]);
    both.countCall({ ...principal, keyId: 'another key of the same address' }, PEER);
    both.countCall({ ...principal, keyId: 'one more' }, PEER);
    expect(() => both.countCall({ ...principal, keyId: 'too many for the address' }, PEER)).toThrow(
      expect.objectContaining({ reason: 'rate_limited' }) as Error,
    );
    const free = limited({});
    for (let call = 0; call < 1000; call += 1) expect(getReason(free)).toBeUndefined();
  });

  it('read many unknown keys in few queries, a repeated one not again, and a valid one among them', async () => {
    const authentication = limited({ failuresPerMinute: 1 });
    const { key } = await fixture.createKey();
    const reads = jest.spyOn(KnownKeyRepository.prototype, 'findByHashes');
    const flood = Array.from({ length: 200 }, () => newKeyText());
    const answers = await Promise.all(
      [...flood, key, ...flood].map(async (one) => (await attempt(authentication, one))?.reason),
    );
    expect(answers[200]).toBeUndefined();
    expect(answers.filter((reason) => reason === 'rate_limited')).toHaveLength(399);
    expect(reads.mock.calls.length).toBeLessThanOrEqual(8);
    reads.mockClear();
    for (const one of flood) await attempt(authentication, one);
    expect(reads).not.toHaveBeenCalled();
    fixture.clock.advance(1000);
    await attempt(authentication, flood[0]);
    expect(reads).toHaveBeenCalledTimes(1);
    reads.mockRestore();
  });

  it('read keys by their hashes, and the member, the role and the organization by their IDs', async () => {
    for (const hashes of [['a'], ['a', 'b']]) {
      const plan = await getPlan(
        fixture.db.database,
        async (db) => await new KnownKeyRepository(db).findByHashes(hashes),
      );
      expect(plan).not.toMatch(/Seq Scan|SCAN /);
    }
  });
});
