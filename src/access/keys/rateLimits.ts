import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { KeyRefused, KeyUnknown, type KeyIdentity } from '../../kernel/principal';
import { TokenBuckets } from './tokenBuckets';

/** How many calls may come, and how many attempts may fail; 0: any number. */
export interface Rates {
  /** Attempts without a good key in a minute, of one peer and of one key each; as many may come at once. */
  readonly failedPerMinute: number;
  readonly callsPerKeyPerSecond: number;
  readonly callsPerPeerPerSecond: number;
  /** How many seconds' worth of calls may come at once. */
  readonly burstSeconds: number;
}

/** No limit at all. */
export const UNLIMITED: Rates = { failedPerMinute: 0, callsPerKeyPerSecond: 0, callsPerPeerPerSecond: 0, burstSeconds: 1 };

/** Counts calls and failed attempts by key and by peer. Of IPv6 a peer is its /64: whoever has one address there has them all. */
export class RateLimits {
  private readonly failedOfPeer: TokenBuckets | undefined;
  private readonly failedOfKey: TokenBuckets | undefined;
  private readonly callsOfKey: TokenBuckets | undefined;
  private readonly callsOfPeer: TokenBuckets | undefined;

  constructor(clock: Clock, { failedPerMinute, callsPerKeyPerSecond, callsPerPeerPerSecond, burstSeconds }: Rates) {
    const buckets = (perSecond: number, burst: number): TokenBuckets | undefined => (perSecond === 0 ? undefined : new TokenBuckets(clock, perSecond, burst));
    this.failedOfPeer = buckets(failedPerMinute / 60, failedPerMinute);
    this.failedOfKey = buckets(failedPerMinute / 60, failedPerMinute);
    this.callsOfKey = buckets(callsPerKeyPerSecond, callsPerKeyPerSecond * burstSeconds);
    this.callsOfPeer = buckets(callsPerPeerPerSecond, callsPerPeerPerSecond * burstSeconds);
  }

  /** Counts a call that may go on. One that its key has no more of takes nothing from the other keys of its peer. Throws `rate_limited`. */
  countCall(key: KeyIdentity, peer: string): void {
    const wait = (this.callsOfKey?.take(key.keyId) ?? 0) || (this.callsOfPeer?.take(networkOf(peer)) ?? 0);
    if (wait === 0) return;
    throw new KeyRefused(key, 'exhausted', 'rate_limited', `there are more calls with this key, or from this address, than the server takes (rates.callsPerKeyPerSecond, rates.callsPerPeerPerSecond); the next one in ${seconds(wait)}`, { retryAfterMs: wait });
  }

  /** What a failed attempt is told: why it failed, or, where too many have, that alone. */
  failed(error: DomainError, peer: string): DomainError {
    const key = error instanceof KeyRefused ? error.key : undefined;
    const wait = Math.max(this.failedOfPeer?.take(networkOf(peer)) ?? 0, key ? (this.failedOfKey?.take(key.keyId) ?? 0) : 0);
    if (wait === 0) return error;
    const message = `too many calls without a good key came from this address, or with this key; look which client sends them, and try again in ${seconds(wait)}`;
    const told = ['exhausted', 'rate_limited', message, { retryAfterMs: wait }] as const;
    if (key) return new KeyRefused(key, ...told);
    return error instanceof KeyUnknown ? new KeyUnknown(error.keyPrefix, ...told) : new DomainError(...told);
  }
}

/** The peer as it is counted: an IPv4 address, or the first 64 bits of an IPv6 address. */
function networkOf(peer: string): string {
  if (!peer.includes(':')) return peer;
  const [before = '', after] = peer.split('%', 1)[0]?.split('::') ?? [];
  const groups = before === '' ? [] : before.split(':');
  const last = after === undefined || after === '' ? [] : after.split(':');
  const all = [...groups, ...Array.from({ length: Math.max(0, 8 - groups.length - last.length) }, () => '0'), ...last];
  return all.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16)).join(':');
}

function seconds(milliseconds: number): string {
  return `${Math.ceil(milliseconds / 1000)} s`;
}
