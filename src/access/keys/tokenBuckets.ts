import type { Clock } from '../../kernel/clock';
import { dropOldest } from './oldest';

/** As many names as are kept; those that were asked for longest ago go first, and begin anew when they come again. */
const MOST = 10_000;

interface Bucket {
  tokens: number;
  /** When that was, on the clock that never jumps. */
  at: number;
}

/** Token buckets by name: each holds `burst` at most and gets `perSecond` back. */
export class TokenBuckets {
  private readonly buckets = new Map<string, Bucket>();

  constructor(
    private readonly clock: Clock,
    private readonly perSecond: number,
    private readonly burst: number,
  ) {}

  /** Takes one of the bucket. 0: there was one; else after how many milliseconds there will be. */
  take(name: string): number {
    const now = this.clock.monotonic();
    const bucket = this.buckets.get(name) ?? { tokens: this.burst, at: now };
    bucket.tokens = Math.min(this.burst, bucket.tokens + ((now - bucket.at) * this.perSecond) / 1000);
    bucket.at = now;
    if (!this.buckets.delete(name)) dropOldest(this.buckets, MOST);
    this.buckets.set(name, bucket);
    if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1000) / this.perSecond);
    bucket.tokens -= 1;
    return 0;
  }
}
