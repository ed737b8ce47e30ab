/** When an uplink was sent and received. */
export interface UplinkTimes {
  /** On the other side's clock, Unix milliseconds; undefined: it did not say. */
  readonly ownTime: number | undefined;
  /** Whose clock that is. */
  readonly clock: string | undefined;
  /** When the server received it, Unix milliseconds. */
  readonly receivedAt: number;
}

/** How often a physical device sends. */
export interface UplinkRhythm {
  /** The last uplink that counted; undefined: there was none. */
  readonly last: UplinkTimes | undefined;
  /** Milliseconds between the last uplinks that counted, oldest first; at most REMEMBERED_GAPS. */
  readonly gaps: readonly number[];
}

/** How many gaps between the uplinks of a physical device are remembered. */
export const REMEMBERED_GAPS = 10;

// Fewer say too little: two messages in a row right after a join are no rhythm.
const FEWEST_GAPS = 3;
/** What is closer together was sent or handed over as one, like the buffer of a gateway after its link was down. */
const LEAST_GAP = 1000;

/** The rhythm with one more uplink, whatever the order in which they come; undefined: it is too close to the last one to count. */
export function withUplink({ last, gaps }: UplinkRhythm, uplink: UplinkTimes): UplinkRhythm | undefined {
  if (!last) return { last: uplink, gaps };
  const gap = gapBetween(last, uplink);
  return gap < LEAST_GAP ? undefined : { last: uplink, gaps: [...gaps, gap].slice(-REMEMBERED_GAPS) };
}

/** On the device's side, where both say when they were sent on the same clock; one that stands still says nothing. Else by the receipt. */
function gapBetween(one: UplinkTimes, other: UplinkTimes): number {
  const isOnOneClock = one.ownTime !== undefined && other.ownTime !== undefined && one.clock === other.clock && one.ownTime !== other.ownTime;
  return Math.floor(Math.abs(isOnOneClock ? other.ownTime - one.ownTime : other.receivedAt - one.receivedAt));
}

/** The median of gaps between uplinks, in milliseconds; undefined: there are too few to tell. */
export function medianUplinkGap(gaps: readonly number[]): number | undefined {
  if (gaps.length < FEWEST_GAPS) return undefined;
  const sorted = gaps.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  return Math.round((lower + upper) / 2); // deadlines are whole milliseconds
}
