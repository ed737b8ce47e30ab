/** A value at a moment, in seconds since the beginning. */
export interface Point {
  readonly at: number;
  readonly value: number;
}

/** What was looked at, and what came of it. */
export interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly text: string;
}

const MOST_POINTS = 400;
const HOUR = 3600;
const BARS = '▁▂▃▄▅▆▇█';

/** The slope per second that half of all pairs of points exceed (Theil and Sen): outliers, as many as there may be in a third of the points, do not move it. NaN for fewer than two points. */
export function slopeOf(points: readonly Point[]): number {
  const every = Math.ceil(points.length / MOST_POINTS);
  const some = points.filter((_, n) => n % every === 0);
  const slopes = some.flatMap((a, n) => some.slice(n + 1).filter((b) => b.at > a.at).map((b) => (b.value - a.value) / (b.at - a.at)));
  return middle(slopes);
}

/** Whether a value grows: both by more than `perHour` and, over the second half of the points, by more than `least`, which is what it moves by itself. */
export function growth(name: string, unit: string, points: readonly Point[], { perHour, least }: { readonly perHour: number; readonly least: number }): Finding {
  const half = points.slice(Math.floor(points.length / 2));
  const seconds = (half.at(-1)?.at ?? 0) - (half[0]?.at ?? 0);
  const slope = slopeOf(half);
  if (!Number.isFinite(slope)) return { name, ok: false, text: `not measured: only ${half.length} values` };
  const [hourly, whole] = [slope * HOUR, slope * seconds];
  const ok = hourly <= perHour || whole <= least;
  return { name, ok, text: `${signed(hourly)} ${unit} per hour over the last ${seconds.toFixed(0)} s, that is ${signed(whole)} ${unit} (bounds: ${perHour} per hour, or ${least} in all)` };
}

/** Whether a value came back to where it was. */
export function back(name: string, before: number, after: number, allowance: number): Finding {
  return { name, ok: after <= before + allowance, text: `${before} before the load, ${after} after it (${allowance} more are fine)` };
}

/** Whether a value never exceeded a bound. */
export function bounded(name: string, unit: string, values: readonly number[], most: number): Finding {
  const highest = Math.max(0, ...values);
  return { name, ok: highest <= most, text: `at most ${highest.toFixed(1)} ${unit} (bound: ${most})` };
}

/** Values as a row of bars, from their least to their highest. */
export function sparkline(values: readonly number[], width = 40): string {
  const size = Math.max(1, values.length / width);
  const shown = Array.from({ length: Math.min(width, values.length) }, (_, n) => middle(values.slice(Math.floor(n * size), Math.max(Math.floor(n * size) + 1, Math.floor((n + 1) * size)))));
  const [least, most] = [Math.min(...shown), Math.max(...shown)];
  return shown.map((value) => BARS[most > least ? Math.round(((value - least) / (most - least)) * (BARS.length - 1)) : 0]).join('');
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${value.toFixed(1)}`;
}
