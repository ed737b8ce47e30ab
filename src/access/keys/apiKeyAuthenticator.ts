import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { ApiKeyRejectedError, type Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { compileAddressCheck } from './addresses';
import { hashKey, isWellFormed, getPrefix } from './apiKey';
import { addressNotAllowed, keyMalformed, keyMissing, keyUnknown } from './keyErrors';
import { KeyInvalidation } from './keyInvalidation';
import { KeyLoader } from './keyLoader';
import { assertKeyActive } from './keyStatus';
import { KeyUsageTracker } from './keyUsageTracker';
import { PrincipalCache, type CachedKey } from './principalCache';
import { RateLimits, UNLIMITED, type RateLimitOptions } from './rateLimits';

/** Dependencies of ApiKeyAuthenticator. */
export interface AuthenticationOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Default: no limits. */
  readonly rates?: RateLimitOptions;
}

/**
 * Authenticates API keys. A key must be present, well-formed, known, not revoked, not expired and used from an allowed
 * address, checked in this order. A client that fails too often only receives a rate limit error. If the key is in the
 * cache, the result is returned without a promise.
 */
export class ApiKeyAuthenticator {
  readonly invalidation = new KeyInvalidation();
  readonly usage: KeyUsageTracker;
  private readonly cache: PrincipalCache;
  private readonly rateLimits: RateLimits;
  private readonly clock: Clock;

  constructor(options: AuthenticationOptions) {
    const { uow, clock, rates = UNLIMITED } = options;
    this.clock = clock;
    this.usage = new KeyUsageTracker(options);
    this.cache = new PrincipalCache(new KeyLoader(uow), this.invalidation, clock);
    this.rateLimits = new RateLimits(clock, rates);
  }

  /**
   * Authenticates a call. `peer` is the caller's address without the port. Throws api_key_missing, api_key_invalid,
   * api_key_revoked, api_key_expired, address_not_allowed, rate_limited.
   */
  authenticate(key: string | undefined, peer: string): Principal | Promise<Principal> {
    if (!key) throw this.rateLimits.countFailure(keyMissing(), peer);
    const hash = hashKey(key);
    const cached = this.cache.find(hash);
    if (cached) return this.verifyAndRecordUse(cached, peer);
    if (!isWellFormed(key)) throw this.rateLimits.countFailure(keyMalformed(), peer);
    if (this.cache.isUnknown(hash)) throw this.rateLimits.countFailure(keyUnknown(getPrefix(key)), peer);
    return this.loadAndVerify(hash, getPrefix(key), peer);
  }

  /** Authenticates a call whose key is not in the cache. */
  private async loadAndVerify(hash: string, prefix: string, peer: string): Promise<Principal> {
    const key = await this.cache.load(hash, 'call');
    if (!key) throw this.rateLimits.countFailure(keyUnknown(prefix), peer);
    return this.verifyAndRecordUse(key, peer);
  }

  /** Checks that a key is active and used from an allowed address, and records the use. */
  private verifyAndRecordUse(key: CachedKey, peer: string): Principal {
    const { principal } = key;
    try {
      assertKeyActive(key, this.clock.now());
      if (key.lastAllowedPeer !== peer && !key.isAllowedAddress(peer)) throw addressNotAllowed(principal, peer);
    } catch (error) {
      throw error instanceof ApiKeyRejectedError ? this.rateLimits.countFailure(error, peer) : error;
    }
    key.lastAllowedPeer = peer;
    this.usage.recordUse(principal, peer);
    return principal;
  }

  /** Counts one call or one new stream. Throws rate_limited. */
  countCall(principal: Principal, peer: string): void {
    this.rateLimits.countCall(principal, peer);
  }

  /** Reads the key of open streams again and returns its current permissions. Throws if the key is no longer valid. */
  async recheck(principal: Principal): Promise<Principal> {
    const earlier = this.cache.findByPrincipal(principal);
    const current = earlier && (await this.cache.load(earlier.hash, 'recheck'));
    if (!current) throw keyUnknown(principal.keyPrefix);
    assertKeyActive(current, this.clock.now());
    return current.principal;
  }

  /** Throws address_not_allowed if the key may not be used from the address. */
  assertAddressAllowed(principal: Principal, peer: string): void {
    const isAllowedAddress =
      this.cache.findByPrincipal(principal)?.isAllowedAddress ?? compileAddressCheck(principal.allowedAddresses);
    if (!isAllowedAddress(peer)) throw addressNotAllowed(principal, peer);
  }
}
