/** When an uplink was sent and received. */
export interface UplinkTimes {
  /** The sender's time, Unix milliseconds; undefined if not reported. */
  readonly ownTime: number | undefined;
  /** Identifies the clock of `ownTime`. */
  readonly clock: string | undefined;
  /** When the server received it, Unix milliseconds. */
  readonly receivedAt: number;
}

/** How often a physical device sends. */
export interface UplinkHistory {
  /** The last uplink that counted; undefined before the first one. */
  readonly last: UplinkTimes | undefined;
  /** Milliseconds between the last uplinks that counted, oldest first; at most MAX_UPLINK_GAPS. */
  readonly gaps: readonly number[];
}

/** The maximum number of remembered gaps per physical device. */
export const MAX_UPLINK_GAPS = 10;

// Fewer gaps are not reliable: two messages right after a join are not a pattern.
const MIN_GAPS = 3;
/**
 * Uplinks closer together were sent or delivered as one batch, for example the buffer of a gateway after a disconnect.
 */
const MIN_GAP_MS = 1000;

/** Adds one uplink to the history, in any order of arrival; undefined if it is too close to the last one to count. */
export function addUplink({ last, gaps }: UplinkHistory, uplink: UplinkTimes): UplinkHistory | undefined {
  if (!last) return { last: uplink, gaps };
  const gap = measureGap(last, uplink);
  return gap < MIN_GAP_MS ? undefined : { last: uplink, gaps: [...gaps, gap].slice(-MAX_UPLINK_GAPS) };
}

/**
 * Returns the gap in milliseconds. Uses the sender's times if both uplinks have one of the same clock and the clock
 * advanced; otherwise the receipt times.
 */
function measureGap(previous: UplinkTimes, next: UplinkTimes): number {
  const canUseSenderTimes =
    previous.ownTime !== undefined &&
    next.ownTime !== undefined &&
    previous.clock === next.clock &&
    previous.ownTime !== next.ownTime;
  const gap = canUseSenderTimes ? next.ownTime - previous.ownTime : next.receivedAt - previous.receivedAt;
  return Math.floor(Math.abs(gap));
}

/** Returns the median gap between uplinks in milliseconds; undefined if there are too few gaps. */
export function computeMedianUplinkGap(gaps: readonly number[]): number | undefined {
  if (gaps.length < MIN_GAPS) return undefined;
  const sorted = gaps.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  return Math.round((lower + upper) / 2); // deadlines are whole milliseconds
}
