import type { Clock } from '../../kernel/clock';
import { evictOldest } from '../../kernel/evictOldest';

/** The maximum number of buckets; the least recently used ones are evicted and start full again. */
const MAX_BUCKETS = 10_000;

/** The tokens of one name at the time of the last update. */
interface Bucket {
  tokens: number;
  /** The time of the last update, milliseconds of the monotonic clock. */
  updatedAt: number;
}

/**
 * Token buckets by name, which limit a rate: each action takes a token. A bucket holds at most `burst` tokens and gains
 * `perSecond` tokens per second.
 */
export class TokenBuckets {
  private readonly buckets = new Map<string, Bucket>();

  constructor(
    private readonly clock: Clock,
    private readonly perSecond: number,
    private readonly burst: number,
  ) {}

  /** Takes a token. Returns 0 on success, otherwise the time until the next token in milliseconds. */
  takeToken(name: string): number {
    const now = this.clock.monotonic();
    const bucket = this.buckets.get(name) ?? { tokens: this.burst, updatedAt: now };
    const gainedTokens = ((now - bucket.updatedAt) * this.perSecond) / 1000;
    bucket.tokens = Math.min(this.burst, bucket.tokens + gainedTokens);
    bucket.updatedAt = now;
    // Deleting and inserting again moves the bucket to the end of the map, so that the least recently used one is
    // first.
    if (!this.buckets.delete(name)) evictOldest(this.buckets, MAX_BUCKETS);
    this.buckets.set(name, bucket);
    if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1000) / this.perSecond);
    bucket.tokens -= 1;
    return 0;
  }
}
