import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { IANAZone } from 'luxon';
import { validationFailed } from '../../kernel/errors';
import { DAY_MS, HOUR_MS } from '../../kernel/timeUnits';

/** The unit of a bucket length. Days and longer units follow the calendar of the time zone. */
export type BucketUnit = 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month';

/** The length of a bucket. */
export interface BucketLength {
  readonly count: number;
  readonly unit: BucketUnit;
}

/** The maximum number of buckets per sensor: enough for a year of hours or a week of minutes, plus a clock change. */
export const MAX_BUCKETS = 10_500;

const MAX_CALENDAR_BUCKETS = 1000;
// Each day takes a few microseconds, so the loops yield after this many days.
const DAY_BATCH_SIZE = 500;
/** The length of the units of clock time; the other units follow the calendar. */
const CLOCK_UNIT_MS: Readonly<Partial<Record<BucketUnit, number>>> = { second: 1000, minute: 60_000, hour: HOUR_MS };
// Lower bounds of the bucket lengths, so that a request for far too many buckets is rejected before they are counted.
const MIN_BUCKET_MS = { day: DAY_MS * 0.9, week: DAY_MS * 6.9, month: DAY_MS * 27.9 } as const;
// The Monday of the week of 1970-01-01, in days since 1970-01-01.
const FIRST_MONDAY = -3;

/** Returns why a length is invalid, as the end of a sentence about it; undefined for a valid one. */
export function getBucketProblem({ count, unit }: BucketLength): string | undefined {
  const size = CLOCK_UNIT_MS[unit];
  if (size === undefined)
    return count > MAX_CALENDAR_BUCKETS ? `must be at most ${MAX_CALENDAR_BUCKETS} ${unit}s (got ${count})` : undefined;
  if (DAY_MS % (count * size) === 0) return undefined;
  return 'must divide a day into equal parts: use for example 15 minutes, 90 seconds or 6 hours, or a number of days';
}

/** Whether this is the name of a time zone. */
export function isTimeZone(name: string): boolean {
  return IANAZone.isValidZone(name);
}

// Luxon caches every zone forever, under each alias of its name. The cache is cleared when it has too many zones.
const MAX_CACHED_ZONES = 100;
const zones = new Set<string>();

/** Returns the time zone with this name. Aliases share one canonical name, so that the cache holds each zone once. */
function parseZone(name: string): IANAZone {
  const { timeZone } = new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions();
  if (zones.size >= MAX_CACHED_ZONES && !zones.has(timeZone)) {
    zones.clear();
    IANAZone.resetCache();
  }
  zones.add(timeZone);
  return IANAZone.create(timeZone);
}

/** Whether buckets of this length can start or end within an hour, so that hourly summaries cannot be used. */
export function canEndWithinHour({ count, unit }: BucketLength): boolean {
  return (count * (CLOCK_UNIT_MS[unit] ?? DAY_MS)) % HOUR_MS !== 0;
}

/**
 * Lists the edges of the buckets in ascending order: `from`, each edge between `from` and `to` according to the clock
 * or calendar of the time zone, and `to`. Times are Unix milliseconds; `from` is before `to`. Assumes a valid length
 * and time zone. Throws `validation_failed` for more than MAX_BUCKETS buckets.
 */
export async function listBucketEdges(
  from: number,
  to: number,
  length: BucketLength,
  timeZone: string,
): Promise<number[]> {
  const { unit, count } = length;
  const minLengthMs = CLOCK_UNIT_MS[unit] ?? MIN_BUCKET_MS[unit as keyof typeof MIN_BUCKET_MS];
  if ((to - from) / (minLengthMs * count) > MAX_BUCKETS) throw tooManyBuckets();
  const calendar = new Calendar(timeZone);
  const unitMs = CLOCK_UNIT_MS[unit];
  const edges =
    unitMs === undefined
      ? await listCalendarEdges(from, to, length, calendar)
      : await listClockEdges(from, to, unitMs * count, calendar);
  if (edges.length - 1 > MAX_BUCKETS) throw tooManyBuckets();
  return edges;
}

/**
 * Lists edges at the start of every `count` days, weeks or months of the time zone, counted from 1970, so that the
 * edges do not depend on `from`.
 */
async function listCalendarEdges(
  from: number,
  to: number,
  { unit, count }: BucketLength,
  calendar: Calendar,
): Promise<number[]> {
  const getEdge = (step: number): number => calendar.getStartOfDay(getDayOfStep(step * count, unit));
  const edges = [from];
  let step = Math.floor(getStepOfDay(calendar.getDay(from), unit) / count) + 1;
  for (let edge = getEdge(step); edge < to && edges.length <= MAX_BUCKETS; edge = getEdge(step)) {
    // A day that the time zone skipped has the same start as the next day.
    if (edge > (edges.at(-1) as number)) edges.push(edge);
    step += 1;
    if (step % DAY_BATCH_SIZE === 0) await yieldToEventLoop();
  }
  return [...edges, to];
}

/**
 * Lists edges in equal steps from each midnight on. Steps of more than an hour follow the local time, so that one step
 * of a day with 23 or 25 hours is shorter or longer.
 */
async function listClockEdges(from: number, to: number, stepMs: number, calendar: Calendar): Promise<number[]> {
  const edges = [from];
  let day = calendar.getDay(from) + 1; // the next day, because a day may start late where the local time jumps
  while (calendar.getStartOfDay(day) > from) day -= 1;
  let start = calendar.getStartOfDay(day);
  while (start < to && edges.length <= MAX_BUCKETS) {
    const next = calendar.getStartOfDay(day + 1);
    const followsLocalTime = stepMs > HOUR_MS && next - start !== DAY_MS;
    const getEdge = (step: number): number =>
      followsLocalTime ? calendar.findFirstTime(day * DAY_MS + step * stepMs) : start + step * stepMs;
    // Skips steps up to `from`, which is an edge itself.
    let step = followsLocalTime ? 0 : Math.max(0, Math.ceil((from + 1 - start) / stepMs));
    for (let edge = getEdge(step); edge < Math.min(next, to); edge = getEdge(step)) {
      if (edge > (edges.at(-1) as number)) edges.push(edge);
      step += 1;
    }
    start = next;
    day += 1;
    if (day % DAY_BATCH_SIZE === 0) await yieldToEventLoop();
  }
  return [...edges, to];
}

/** Returns the number of the day, week or month (a step) that contains a day. Steps and days are counted from 1970. */
function getStepOfDay(day: number, unit: BucketUnit): number {
  if (unit === 'day') return day;
  if (unit === 'week') return Math.floor((day - FIRST_MONDAY) / 7);
  const date = new Date(day * DAY_MS);
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
}

/** Returns the first day of a day, week or month (a step). Steps and days are counted from 1970. */
function getDayOfStep(step: number, unit: BucketUnit): number {
  if (unit === 'day') return step;
  return unit === 'week' ? step * 7 + FIRST_MONDAY : Date.UTC(1970, step) / DAY_MS;
}

/** Creates the error for a time range with more than MAX_BUCKETS buckets. */
function tooManyBuckets(): Error {
  return validationFailed([
    {
      field: 'bucket',
      description: `makes more than ${MAX_BUCKETS} buckets between \`from\` and \`to\`: use a longer bucket or a shorter time range`,
    },
  ]);
}

/** Converts between times and the local time of a time zone. Days are counted from 1970-01-01. */
class Calendar {
  private readonly zone: IANAZone | undefined;
  private readonly offsetByTime = new Map<number, number>();

  constructor(timeZone: string) {
    this.zone = timeZone === 'UTC' ? undefined : parseZone(timeZone);
  }

  /** Returns the local day at a time. */
  getDay(time: number): number {
    return Math.floor(this.toLocal(time) / DAY_MS);
  }

  /** Returns the first time at which the local day is this day or a later one. */
  getStartOfDay(day: number): number {
    return this.findFirstTime(day * DAY_MS);
  }

  /** Returns the first time at which the local time is this one or later. */
  findFirstTime(local: number): number {
    const offsetBefore = this.getCachedOffset(local - DAY_MS);
    const offsetAfter = this.getCachedOffset(local + DAY_MS);
    if (offsetBefore === offsetAfter) return local - offsetBefore;
    // The offset changes on this day. The local time may exist once, twice (then the first counts), or not at all.
    const earlier = local - Math.max(offsetBefore, offsetAfter);
    const later = local - Math.min(offsetBefore, offsetAfter);
    const exact = [earlier, later].find((time) => this.toLocal(time) === local);
    return exact ?? this.findJump(local, earlier, later);
  }

  /** Returns the time between two times at which the local clock jumps over a local time, by binary search. */
  private findJump(local: number, before: number, after: number): number {
    let low = before - 1;
    let high = after;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.toLocal(middle) >= local) high = middle;
      else low = middle;
    }
    return high;
  }

  /** Returns the offset from UTC in milliseconds. It is cached, because neighbouring days need the same offsets. */
  private getCachedOffset(time: number): number {
    const cached = this.offsetByTime.get(time);
    if (cached !== undefined) return cached;
    const offset = this.getOffset(time);
    if (this.offsetByTime.size > DAY_BATCH_SIZE) this.offsetByTime.clear();
    this.offsetByTime.set(time, offset);
    return offset;
  }

  /** Returns the local time at a time, as milliseconds as if the time zone were UTC. */
  private toLocal(time: number): number {
    return time + this.getOffset(time);
  }

  private getOffset(time: number): number {
    return this.zone ? Math.round(this.zone.offset(time) * 60_000) : 0;
  }
}
