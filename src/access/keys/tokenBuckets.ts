import type { Clock } from '../../kernel/clock';

/** As many names as are kept; the one that was asked for longest ago goes first, and begins anew when it comes again. */
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
    this.keep(name, bucket);
    if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1000) / this.perSecond);
    bucket.tokens -= 1;
    return 0;
  }

  private keep(name: string, bucket: Bucket): void {
    const isNew = !this.buckets.delete(name);
    this.buckets.set(name, bucket);
    if (!isNew || this.buckets.size <= MOST) return;
    const [oldest = name] = this.buckets.keys();
    this.buckets.delete(oldest);
  }
}
