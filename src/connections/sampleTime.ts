import { DateTime } from 'luxon';
import { getStartOfDay } from '../kernel/calendarDay';
import { InexactNumber } from '../kernel/inexactNumber';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../kernel/timeUnits';
import { formatJsonExample } from './dataWarning';

/**
 * The time of a sample in Unix milliseconds, or why a value names no instant: a code in snake_case, a colon, and what
 * would be right.
 */
type SampleTime = { readonly time: number } | { readonly reason: string };

/** Why a time cannot be the time of a reading: the reason, and the time as the message has it. */
interface TimeProblem {
  readonly reason: string;
  readonly example: string;
}

/** The time in a message; all fields are undefined if it has none. */
export interface ReportedTime {
  /** When the device sent it, on the clock of the peer, Unix milliseconds; undefined if it could not be read. */
  readonly time: number | undefined;
  /** The value from which `time` was read; undefined if it was a timestamp already. */
  readonly sentTime?: unknown;
  /** Why the time could not be read. */
  readonly timeProblem?: TimeProblem | undefined;
}

/** Captures the date, the time of day and the offset, in the basic and the extended form of ISO 8601. */
const DATE_TIME = /^([\dW-]+)[T ]([\d:]+(?:[.,]\d+)?) ?(Z|[+\-\u2212]\d\d(?::?\d\d)?)?$/i;
/** A calendar date, an ordinal date or a week date, each with its day. */
const DATE = /^\d{4}(?:-\d\d-\d\d|\d{4}|-?\d{3}|-?W\d\d-?\d)$/i;
const CALENDAR_DATE = /^(\d{4})-?(\d\d)-?(\d\d)$/;
/** Captures the date, hours, minutes and seconds of a text that has only digits. */
const DATE_OF_DIGITS = /^(\d{8})(?:(\d\d)(\d\d)(\d\d)?)?$/;
/** Captures hours, minutes, seconds, and the decimal fraction of the last of them. */
const TIME_OF_DAY = /^(\d\d)(?::?(\d\d)(?::?(\d\d))?)?(?:[.,](\d+))?$/;
const OFFSET = /^([+\-\u2212])(\d\d):?(\d\d)?$/;
const NUMBER = /^-?\d+(?:[.,]\d+)?(?:e\+?\d+)?$/i;

/** A time before 2000 comes from a clock that was never set. */
export const MIN_SAMPLE_TIME_MS = Date.UTC(2000, 0, 1);
const MAX_AHEAD_MS = 5 * MINUTE_MS;
/**
 * The units of a Unix time by its magnitude: a number below the limit is in this unit. As seconds, numbers from the
 * first limit on would be after the year 5000; the other limits are the same time in the other units.
 */
const UNITS = [
  { limit: 1e11, perMs: 0.001 },
  { limit: 1e14, perMs: 1 },
  { limit: 1e17, perMs: 1000 },
  { limit: 1e20, perMs: 1_000_000 },
] as const;
/** Compensates that a binary fraction may be slightly less than the decimal one, for example 0.57 × 1000 = 569.99…. */
const ROUNDING_MS = 0.001;

/**
 * Parses the time of a sample: a text in ISO 8601 with an offset, or a Unix time in seconds, milliseconds, microseconds
 * or nanoseconds, as a number or as text. `timeZone`: the IANA time zone of times without an offset; without it, they
 * name no instant. Nothing is guessed: a time that does not exist, or exists twice, is not a sample time.
 */
export function parseSampleTime(value: unknown, timeZone?: string): SampleTime {
  return typeof value === 'string' ? parseText(value.trim(), timeZone) : parseUnixTime(value);
}

/**
 * Reads the time in a message. undefined, null and an empty text mean that it has none. Of a number that JavaScript
 * does not hold exactly, such as nanoseconds, the nearest one counts.
 */
export function readSampleTime(value: unknown, timeZone?: string): ReportedTime {
  if (value === undefined || value === null || value === '') return { time: undefined };
  const parsed = parseSampleTime(value instanceof InexactNumber ? value.nearest : value, timeZone);
  if ('time' in parsed) return { ...parsed, sentTime: value };
  return { time: undefined, timeProblem: { reason: parsed.reason, example: formatJsonExample(value) } };
}

/**
 * Returns why readings do not get the time of their message: it could not be read, is before 2000, or more than 5
 * minutes after the arrival (`receivedAt`). Undefined for other times, also for those of a clock that is a little fast.
 */
export function findTimeProblem(
  { time, sentTime, timeProblem }: ReportedTime,
  receivedAt: number,
): TimeProblem | undefined {
  if (time === undefined) return timeProblem;
  const reason =
    time < MIN_SAMPLE_TIME_MS
      ? 'time_before_2000: set the clock of the device, or send the time in a known unit'
      : 'time_in_future: set the clock of the device, or send the time with the right offset';
  const isPlausible = time >= MIN_SAMPLE_TIME_MS && time <= receivedAt + MAX_AHEAD_MS;
  return isPlausible ? undefined : { reason, example: formatJsonExample(sentTime ?? new Date(time)) };
}

function parseText(text: string, timeZone: string | undefined): SampleTime {
  if (NUMBER.test(text)) return parseNumber(text);
  const [, date = '', timeOfDay = '', offset] = DATE_TIME.exec(text) ?? [];
  if (DATE.test(text)) return invalid('time_of_day_missing', 'a date alone names no instant; send the time of day too');
  if (!DATE.test(date)) return unreadable();
  const dayMs = parseDate(date);
  const wallTime = dayMs + parseTimeOfDay(timeOfDay);
  const offsetMs = offset === undefined ? 0 : parseOffset(offset);
  if (Number.isNaN(wallTime + offsetMs)) return invalid('time_impossible', 'this date or time does not exist');
  return offset === undefined ? toInstant(wallTime, timeZone) : { time: wallTime - offsetMs };
}

/** Parses the text of a number, which is a Unix time unless it is a date without separators. */
function parseNumber(text: string): SampleTime {
  return isDateOfDigits(text) ? unreadable() : parseUnixTime(Number(text.replace(',', '.')));
}

/** Whether a text is a date without separators, such as 20261128175437. As a Unix time, it would be another time. */
function isDateOfDigits(text: string): boolean {
  const [, date, hours = '00', minutes = '00', seconds = '00'] = DATE_OF_DIGITS.exec(text) ?? [];
  return date !== undefined && !Number.isNaN(parseDate(date) + parseTimeOfDay(`${hours}:${minutes}:${seconds}`));
}

/** Parses a date to the start of its day in UTC; NaN if it does not exist. */
function parseDate(text: string): number {
  const [, year, month, day] = CALENDAR_DATE.exec(text) ?? [];
  if (year === undefined) return DateTime.fromISO(text, { zone: 'utc' }).toMillis();
  return getStartOfDay(Number(year), Number(month), Number(day)) ?? Number.NaN;
}

/** Parses a time of day, milliseconds since midnight; NaN if it does not exist. */
function parseTimeOfDay(text: string): number {
  const match = TIME_OF_DAY.exec(text);
  if (!match) return Number.NaN;
  const parts = match.slice(1, 4).filter((part) => part !== undefined); // hours, minutes and seconds, as many as given
  const [hours = 0, minutes = 0, seconds = 0] = parts.map(Number);
  const unitMs = [HOUR_MS, MINUTE_MS, SECOND_MS][parts.length - 1] ?? SECOND_MS;
  const fractionMs = Math.floor(Number(`0.${match[4] ?? 0}`) * unitMs + ROUNDING_MS);
  const time = hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS + fractionMs;
  return isTimeOfDay(minutes, seconds, time) ? time : Number.NaN;
}

/** Whether a time of day exists. 24:00 is the end of the day, and so is a leap second. */
function isTimeOfDay(minutes: number, seconds: number, time: number): boolean {
  const isLeapSecond = minutes === 59 && seconds === 60;
  const isInRange = minutes <= 59 && (seconds <= 59 || isLeapSecond);
  return isInRange && time < DAY_MS + (isLeapSecond ? SECOND_MS : 1);
}

/** Parses an offset from UTC in milliseconds; NaN if it does not exist. */
function parseOffset(text: string): number {
  if (text.toUpperCase() === 'Z') return 0;
  const [, sign, hours, minutes = '0'] = OFFSET.exec(text) ?? [];
  if (Number(hours) > 23 || Number(minutes) > 59) return Number.NaN;
  return (sign === '+' ? 1 : -1) * (Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS);
}

/**
 * Converts the time of a local clock (as if it were UTC, Unix milliseconds) to an instant. When a clock is put forward,
 * some times do not exist; when it is put back, some exist twice.
 */
function toInstant(wallTime: number, timeZone: string | undefined): SampleTime {
  if (timeZone === undefined)
    return invalid('time_offset_missing', 'send the offset, for example +02:00, or set `timeZone` of the connection');
  const local = DateTime.fromMillis(wallTime, { zone: 'utc' }).setZone(timeZone, { keepLocalTime: true });
  if (local.getPossibleOffsets().length > 1)
    return invalid(
      'time_ambiguous',
      `this time exists twice in ${timeZone}, because the clock is put back; send the offset`,
    );
  const time = local.toMillis();
  const exists = time + local.offset * MINUTE_MS === wallTime;
  return exists
    ? { time }
    : invalid('time_impossible', `this time does not exist in ${timeZone}, because the clock is put forward`);
}

/** Converts a Unix time, whose unit follows from its magnitude. */
function parseUnixTime(value: unknown): SampleTime {
  if (typeof value !== 'number') return unreadable();
  const unit = UNITS.find(({ limit }) => value < limit);
  return unit && value >= 0 ? { time: Math.floor(value / unit.perMs + ROUNDING_MS) } : unreadable();
}

function unreadable(): SampleTime {
  return invalid(
    'time_unreadable',
    'send ISO 8601 with an offset, for example 2026-01-31T08:00:00+01:00, or a Unix time',
  );
}

function invalid(code: string, expected: string): SampleTime {
  return { reason: `${code}: ${expected}` };
}
