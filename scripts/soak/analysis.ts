/** A value at a time, in seconds since the start. */
export interface Point {
  readonly at: number;
  readonly value: number;
}

/** The result of one check. */
export interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly text: string;
}

const MAX_POINTS = 400;
const HOUR = 3600;
const BARS = '▁▂▃▄▅▆▇█';

/**
 * The median slope per second of all pairs of points (Theil-Sen estimator), which tolerates outliers in up to a third of
 * the points. NaN for fewer than two points.
 */
export function getSlope(points: readonly Point[]): number {
  const every = Math.ceil(points.length / MAX_POINTS);
  const sampled = points.filter((_, n) => n % every === 0);
  const slopes = sampled.flatMap((a, n) =>
    sampled
      .slice(n + 1)
      .filter((b) => b.at > a.at)
      .map((b) => (b.value - a.value) / (b.at - a.at)),
  );
  return median(slopes);
}

/**
 * Checks that a value does not grow in the second half of the points. It fails only if the growth exceeds both `perHour`,
 * extrapolated to an hour, and `min`, its normal fluctuation.
 */
export function checkGrowth(
  name: string,
  unit: string,
  points: readonly Point[],
  { perHour, min }: { readonly perHour: number; readonly min: number },
): Finding {
  const half = points.slice(Math.floor(points.length / 2));
  const seconds = (half.at(-1)?.at ?? 0) - (half[0]?.at ?? 0);
  const slope = getSlope(half);
  if (!Number.isFinite(slope)) return { name, ok: false, text: `not measured: only ${half.length} values` };
  const [hourly, total] = [slope * HOUR, slope * seconds];
  const ok = hourly <= perHour || total <= min;
  return {
    name,
    ok,
    text: `${formatSigned(hourly)} ${unit} per hour over the last ${seconds.toFixed(0)} s, that is ${formatSigned(total)} ${unit} (limits: ${perHour} per hour, or ${min} in total)`,
  };
}

/** Checks that a value returned to its initial level. */
export function checkReturn(name: string, before: number, after: number, allowance: number): Finding {
  return {
    name,
    ok: after <= before + allowance,
    text: `${before} before the load, ${after} after it (allowed: ${allowance} more)`,
  };
}

/** Checks that a value never exceeded `max`. */
export function checkUpperBound(name: string, unit: string, values: readonly number[], max: number): Finding {
  const highest = Math.max(0, ...values);
  return { name, ok: highest <= max, text: `at most ${highest.toFixed(1)} ${unit} (limit: ${max})` };
}

/** Draws values as a row of bars, scaled from their minimum to their maximum. */
export function sparkline(values: readonly number[], width = 40): string {
  const size = Math.max(1, values.length / width);
  const shown = Array.from({ length: Math.min(width, values.length) }, (_, n) =>
    median(values.slice(Math.floor(n * size), Math.max(Math.floor(n * size) + 1, Math.floor((n + 1) * size)))),
  );
  const [min, max] = [Math.min(...shown), Math.max(...shown)];
  return shown
    .map((value) => BARS[max > min ? Math.round(((value - min) / (max - min)) * (BARS.length - 1)) : 0])
    .join('');
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function formatSigned(value: number): string {
  return `${value < 0 ? '' : '+'}${value.toFixed(1)}`;
}
