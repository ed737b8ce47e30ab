/** The result of a run. Latencies are in milliseconds. */
export interface Measured {
  readonly calls: number;
  readonly failed: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

/** The value below which this share of the values lies, for example 0.99; NaN for none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Summarizes a run. `latencies` are in milliseconds; fewer calls may be timed than were made. */
export function summarize(
  latencies: readonly number[],
  { calls, failed, seconds }: Pick<Measured, 'calls' | 'failed'> & { readonly seconds: number },
): Measured {
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { calls, failed, perSecond: calls / seconds, p50, p99 };
}
