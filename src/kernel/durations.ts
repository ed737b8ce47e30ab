/** Histogram of durations since the process started. Adding is cheap. */
export class DurationHistogram {
  /** Number of values in each bucket (not cumulative); the last bucket holds all longer ones. */
  readonly counts: readonly number[];
  private readonly bucketCounts: number[];
  private total = 0;

  /** `bounds` are the upper bounds of the buckets in seconds, ascending. */
  constructor(readonly bounds: readonly number[]) {
    this.bucketCounts = Array.from({ length: bounds.length + 1 }, () => 0);
    this.counts = this.bucketCounts;
  }

  /** Adds one duration, in milliseconds. */
  add(milliseconds: number): void {
    const seconds = milliseconds / 1000;
    let bucket = 0;
    while (bucket < this.bounds.length && seconds > (this.bounds[bucket] as number)) bucket += 1;
    this.bucketCounts[bucket] = (this.bucketCounts[bucket] as number) + 1;
    this.total += seconds;
  }

  /** Sum of all durations, in seconds. */
  get sum(): number {
    return this.total;
  }
}

/** Histograms of durations by label. */
export class LabeledDurationHistograms<Label extends string = string> {
  private readonly histograms = new Map<Label, DurationHistogram>();

  constructor(private readonly bounds: readonly number[]) {}

  /** Returns the histogram of a label and creates it if necessary. */
  get(label: Label): DurationHistogram {
    let histogram = this.histograms.get(label);
    if (!histogram) {
      histogram = new DurationHistogram(this.bounds);
      this.histograms.set(label, histogram);
    }
    return histogram;
  }

  /** Returns every label that has a histogram. */
  entries(): Iterable<readonly [Label, DurationHistogram]> {
    return this.histograms;
  }
}

/** Buckets for short durations: 0.1 ms to 10 s. */
export const SHORT_DURATION_BUCKETS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Buckets for long durations: 0.1 s to one day. */
export const LONG_DURATION_BUCKETS: readonly number[] = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400];
