/** How many uplinks of a physical device are remembered: ten gaps. */
export const REMEMBERED_UPLINKS = 11;

// Fewer say too little: two messages in a row right after a join are no rhythm.
const FEWEST_GAPS = 3;

/** The median gap, in milliseconds, between uplinks that were received at these times (Unix milliseconds, oldest first); undefined: there are too few to tell. */
export function medianUplinkGap(recentUplinks: readonly number[]): number | undefined {
  const gaps = recentUplinks.slice(1).map((time, at) => time - (recentUplinks[at] ?? time));
  if (gaps.length < FEWEST_GAPS) return undefined;
  const sorted = gaps.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  return Math.round(Math.max((lower + upper) / 2, 0)); // deadlines are whole milliseconds
}
