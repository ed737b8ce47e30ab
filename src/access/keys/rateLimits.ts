import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { ApiKeyRejectedError, UnknownApiKeyError, type KeyIdentity } from '../../kernel/principal';
import { getPeerNetwork } from './addresses';
import { TokenBuckets } from './tokenBuckets';

/** Limits for calls and failed authentications; 0: unlimited. */
export interface RateLimitOptions {
  /** Failed authentications per minute, per peer and per key; also the burst size. */
  readonly failuresPerMinute: number;
  readonly requestsPerKeyPerSecond: number;
  readonly requestsPerAddressPerSecond: number;
  /** The burst size in seconds of the configured rate. */
  readonly burstSeconds: number;
}

/** No limits. */
export const UNLIMITED: RateLimitOptions = {
  failuresPerMinute: 0,
  requestsPerKeyPerSecond: 0,
  requestsPerAddressPerSecond: 0,
  burstSeconds: 1,
};

/**
 * Limits calls and failed authentications by key and by peer. An IPv6 peer is its /64 network, because a client usually
 * has all of these addresses.
 */
export class RateLimits {
  private readonly failuresByPeer: TokenBuckets | undefined;
  private readonly failuresByKey: TokenBuckets | undefined;
  private readonly callsByKey: TokenBuckets | undefined;
  private readonly callsByPeer: TokenBuckets | undefined;

  constructor(
    clock: Clock,
    { failuresPerMinute, requestsPerKeyPerSecond, requestsPerAddressPerSecond, burstSeconds }: RateLimitOptions,
  ) {
    const createBuckets = (perSecond: number, burst: number): TokenBuckets | undefined =>
      perSecond === 0 ? undefined : new TokenBuckets(clock, perSecond, burst);
    this.failuresByPeer = createBuckets(failuresPerMinute / 60, failuresPerMinute);
    this.failuresByKey = createBuckets(failuresPerMinute / 60, failuresPerMinute);
    this.callsByKey = createBuckets(requestsPerKeyPerSecond, requestsPerKeyPerSecond * burstSeconds);
    this.callsByPeer = createBuckets(requestsPerAddressPerSecond, requestsPerAddressPerSecond * burstSeconds);
  }

  /** Counts a call. A call that exceeds the limit of its key does not count for its peer. Throws `rate_limited`. */
  countCall(key: KeyIdentity, peer: string): void {
    const keyWaitMs = this.callsByKey?.takeToken(key.keyId) ?? 0;
    const waitMs = keyWaitMs > 0 ? keyWaitMs : (this.callsByPeer?.takeToken(getPeerNetwork(peer)) ?? 0);
    if (waitMs === 0) return;
    throw new ApiKeyRejectedError(
      key,
      'exhausted',
      'rate_limited',
      `too many calls with this key or from this address (rateLimit.requestsPerKeyPerSecond, rateLimit.requestsPerAddressPerSecond): try again in ${formatSeconds(waitMs)}`,
      { retryAfterMs: waitMs },
    );
  }

  /**
   * Counts a failed authentication and returns the error for the client: the given error, or only `rate_limited` after
   * too many failures.
   */
  countFailure(error: DomainError, peer: string): DomainError {
    const key = error instanceof ApiKeyRejectedError ? error.key : undefined;
    const waitMs = Math.max(
      this.failuresByPeer?.takeToken(getPeerNetwork(peer)) ?? 0,
      key ? (this.failuresByKey?.takeToken(key.keyId) ?? 0) : 0,
    );
    if (waitMs === 0) return error;
    const message = `too many failed authentications from this address or with this key: find the client that sends them, and try again in ${formatSeconds(waitMs)}`;
    // The arguments of a DomainError. The class of the error stays the same, because the audit trail reads the key from
    // it.
    const rateLimited = ['exhausted', 'rate_limited', message, { retryAfterMs: waitMs }] as const;
    if (key) return new ApiKeyRejectedError(key, ...rateLimited);
    return error instanceof UnknownApiKeyError
      ? new UnknownApiKeyError(error.keyPrefix, ...rateLimited)
      : new DomainError(...rateLimited);
  }
}

function formatSeconds(milliseconds: number): string {
  return `${Math.ceil(milliseconds / 1000)} s`;
}
