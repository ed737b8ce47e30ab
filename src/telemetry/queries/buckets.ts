import { setImmediate as othersTurn } from 'node:timers/promises';
import { IANAZone } from 'luxon';
import { validationFailed } from '../../kernel/errors';

/** A unit of the clock or of the calendar. */
export type BucketUnit = 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month';

/** The length of a bucket. */
export interface BucketLength {
  readonly count: number;
  readonly unit: BucketUnit;
}

/** The most buckets of one sensor: a year of hours, or a week of minutes, and a day when clocks change. */
export const MOST_BUCKETS = 10_500;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const MOST_OF_CALENDAR = 1000;
// To ask a zone for a day takes some microseconds.
const DAYS_IN_A_TURN = 500;
const CLOCK_MS: Readonly<Partial<Record<BucketUnit, number>>> = { second: 1000, minute: 60_000, hour: HOUR_MS };
// The shortest that they can be: whoever asks for far too many is refused before they are counted.
const SHORTEST_MS = { day: DAY_MS * 0.9, week: DAY_MS * 6.9, month: DAY_MS * 27.9 } as const;
// The Monday of the week of 1970-01-01, in days from that.
const FIRST_MONDAY = -3;

/** What is wrong with a length, as the end of a sentence about it; undefined: nothing. */
export function bucketProblem({ count, unit }: BucketLength): string | undefined {
  const size = CLOCK_MS[unit];
  if (size === undefined) return count > MOST_OF_CALENDAR ? `is longer than ${MOST_OF_CALENDAR} ${unit}s; give at most that` : undefined;
  if (DAY_MS % (count * size) === 0) return undefined;
  return 'does not divide a day without a rest; give one that does, for example 15 minutes, 90 seconds or 6 hours, or count in days';
}

/** Whether it is the name of a time zone. */
export function isTimeZone(name: string): boolean {
  return IANAZone.isValidZone(name);
}

// Luxon keeps what it ever made of a zone, under each spelling of its name.
const MOST_ZONES = 100;
const zones = new Set<string>();

function zoneOf(name: string): IANAZone {
  const { timeZone } = new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions();
  if (zones.size >= MOST_ZONES && !zones.has(timeZone)) {
    zones.clear();
    IANAZone.resetCache();
  }
  zones.add(timeZone);
  return IANAZone.create(timeZone);
}

/** Whether buckets of this length begin and end within hours, so that whole hours say nothing about them. */
export function isWithinHours({ count, unit }: BucketLength): boolean {
  return (count * (CLOCK_MS[unit] ?? DAY_MS)) % HOUR_MS !== 0;
}

/**
 * Where buckets begin and end, in their order: `from`, each edge of the calendar or the clock of the zone between the two, and `to`.
 * Times are Unix milliseconds; `from` is before `to`. Assumes a length without a problem and a zone that is one. Throws
 * `validation_failed` for more than MOST_BUCKETS.
 */
export async function bucketEdges(from: number, to: number, length: BucketLength, timeZone: string): Promise<number[]> {
  const { unit, count } = length;
  const shortest = CLOCK_MS[unit] ?? SHORTEST_MS[unit as keyof typeof SHORTEST_MS];
  if ((to - from) / (shortest * count) > MOST_BUCKETS) throw tooMany();
  const calendar = new Calendar(timeZone);
  const size = CLOCK_MS[unit];
  const edges = size === undefined ? await calendarEdges(from, to, length, calendar) : await clockEdges(from, to, size * count, calendar);
  if (edges.length - 1 > MOST_BUCKETS) throw tooMany();
  return edges;
}

async function calendarEdges(from: number, to: number, { unit, count }: BucketLength, calendar: Calendar): Promise<number[]> {
  const edgeOf = (step: number): number => calendar.startOfDay(dayOfStep(step * count, unit));
  const edges = [from];
  let step = Math.floor(stepOfDay(calendar.dayOf(from), unit) / count) + 1;
  for (let edge = edgeOf(step); edge < to && edges.length <= MOST_BUCKETS; edge = edgeOf(step)) {
    // A day that a zone left out begins when the next one does.
    if (edge > (edges.at(-1) as number)) edges.push(edge);
    step += 1;
    if (step % DAYS_IN_A_TURN === 0) await othersTurn();
  }
  return [...edges, to];
}

/** From each midnight on in equal steps; of more than an hour by the clocks of the zone, so that one of a day of 23 or 25 hours is shorter or longer. */
async function clockEdges(from: number, to: number, size: number, calendar: Calendar): Promise<number[]> {
  const edges = [from];
  let day = calendar.dayOf(from) + 1;
  while (calendar.startOfDay(day) > from) day -= 1;
  let start = calendar.startOfDay(day);
  while (start < to && edges.length <= MOST_BUCKETS) {
    const next = calendar.startOfDay(day + 1);
    const isByClock = size > HOUR_MS && next - start !== DAY_MS;
    const edgeAt = (step: number): number => (isByClock ? calendar.startOf(day * DAY_MS + step * size) : start + step * size);
    const first = Math.max(0, isByClock ? 0 : Math.ceil((from + 1 - start) / size));
    for (let step = first, edge = edgeAt(step); edge < Math.min(next, to); edge = edgeAt((step += 1))) {
      if (edge > (edges.at(-1) as number)) edges.push(edge);
    }
    start = next;
    day += 1;
    if (day % DAYS_IN_A_TURN === 0) await othersTurn();
  }
  return [...edges, to];
}

function stepOfDay(day: number, unit: BucketUnit): number {
  if (unit === 'day') return day;
  if (unit === 'week') return Math.floor((day - FIRST_MONDAY) / 7);
  const date = new Date(day * DAY_MS);
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
}

function dayOfStep(step: number, unit: BucketUnit): number {
  if (unit === 'day') return step;
  return unit === 'week' ? step * 7 + FIRST_MONDAY : Date.UTC(1970, step) / DAY_MS;
}

function tooMany(): Error {
  return validationFailed([{ field: 'bucket', description: `makes more than ${MOST_BUCKETS} buckets of the time from \`from\` to \`to\`; give a longer bucket or a shorter time` }]);
}

/** The days of a time zone, counted from 1970-01-01. */
class Calendar {
  private readonly zone: IANAZone | undefined;
  private readonly probed = new Map<number, number>();

  constructor(timeZone: string) {
    this.zone = timeZone === 'UTC' ? undefined : zoneOf(timeZone);
  }

  /** The day that the calendar shows at a time. */
  dayOf(time: number): number {
    return Math.floor(this.local(time) / DAY_MS);
  }

  /** When the calendar shows this day or a later one for the first time; the first midnight, where clocks show two. */
  startOfDay(day: number): number {
    return this.startOf(day * DAY_MS);
  }

  /** When the clocks show this time of their own or a later one for the first time. */
  startOf(shown: number): number {
    const [before, after] = [this.probe(shown - DAY_MS), this.probe(shown + DAY_MS)];
    if (before === after) return shown - before;
    const guesses = [shown - Math.max(before, after), shown - Math.min(before, after)] as const;
    return guesses.find((guess) => this.local(guess) === shown) ?? this.leap(shown, ...guesses);
  }

  /** The clocks leap over what they would show between two times: when. */
  private leap(shown: number, before: number, after: number): number {
    let [low, high] = [before - 1, after];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.local(middle) >= shown) high = middle;
      else low = middle;
    }
    return high;
  }

  /** The offset, kept for the neighbouring days, which ask at the same times. */
  private probe(time: number): number {
    const known = this.probed.get(time);
    if (known !== undefined) return known;
    const offset = this.offset(time);
    if (this.probed.size > DAYS_IN_A_TURN) this.probed.clear();
    this.probed.set(time, offset);
    return offset;
  }

  private local(time: number): number {
    return time + this.offset(time);
  }

  private offset(time: number): number {
    return this.zone ? Math.round(this.zone.offset(time) * 60_000) : 0;
  }
}
