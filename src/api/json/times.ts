import { getStartOfDay } from '../../kernel/calendarDay';
import { FIRST_SECOND, LAST_SECOND } from '../../kernel/timestamps';

/** A google.protobuf.Timestamp or Duration as ts-proto represents it. */
export interface SecondsAndNanos {
  readonly seconds: number;
  readonly nanos: number;
}

/** The maximum of a Duration in both directions: about 10000 years. */
export const MAX_DURATION_SECONDS = 315_576_000_000;

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** The form of a time in JSON, for error messages. */
export const TIME_FORM = 'a time with its offset, for example "2026-01-31T08:00:00Z"';
/** The form of a duration in JSON, for error messages. */
export const DURATION_FORM = 'a number of seconds with "s", for example "1.5s"';

/** Parses an RFC 3339 time of the years 1 to 9999; undefined if it is invalid. */
export function parseTimestamp(text: string): SecondsAndNanos | undefined {
  const match = RFC_3339.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, fraction, offsetSign, offsetHours, offsetMinutes] = match;
  const startOfDay = getStartOfDay(Number(year), Number(month), Number(day));
  const timeOfDay = parseSeconds(hour, minute, second);
  const offset = parseSeconds(offsetHours, offsetMinutes);
  if (startOfDay === undefined || timeOfDay === undefined || offset === undefined) return undefined;
  const seconds = startOfDay / 1000 + timeOfDay + (offsetSign === '-' ? offset : -offset);
  return seconds < FIRST_SECOND || seconds > LAST_SECOND ? undefined : { seconds, nanos: parseNanos(fraction) };
}

/** Returns a time of day or an offset in seconds; undefined if a part is out of range. A missing part counts as 0. */
function parseSeconds(hours = '0', minutes = '0', seconds = '0'): number | undefined {
  const isValid = Number(hours) <= 23 && Number(minutes) <= 59 && Number(seconds) <= 59;
  return isValid ? Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) : undefined;
}

/** Converts the digits after the decimal point to nanoseconds: `5` becomes 500000000. */
function parseNanos(digits = ''): number {
  return Number(digits.padEnd(9, '0'));
}

const MAX_CACHED_TEXTS = 4096;
const textByMilliseconds = new Map<number, string>();

/** Formats a time as RFC 3339 in UTC with 3 fractional digits, or 6 or 9 if they are needed. */
export function formatTimestamp({ seconds, nanos }: SecondsAndNanos): string {
  const text = formatMilliseconds(seconds * 1000 + Math.floor(nanos / 1_000_000));
  if (nanos % 1_000_000 === 0) return text;
  const textBeforeFraction = text.slice(0, -'000Z'.length);
  return `${textBeforeFraction}${formatFraction(nanos)}Z`;
}

/**
 * Formats Unix milliseconds as RFC 3339 in UTC. The texts are cached, because responses repeat the same times within a
 * record and across the records of a page.
 */
function formatMilliseconds(milliseconds: number): string {
  const cached = textByMilliseconds.get(milliseconds);
  if (cached !== undefined) return cached;
  const text = new Date(milliseconds).toISOString();
  if (textByMilliseconds.size >= MAX_CACHED_TEXTS) textByMilliseconds.clear();
  textByMilliseconds.set(milliseconds, text);
  return text;
}

/**
 * Parses a duration such as "1.5s"; undefined if it is invalid or longer than 10,000 years. Seconds and nanos of a
 * negative duration are both negative.
 */
export function parseDuration(text: string): SecondsAndNanos | undefined {
  const match = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(text);
  if (!match) return undefined;
  const [, minus, wholeSeconds, fraction] = match;
  if (Number(wholeSeconds) > MAX_DURATION_SECONDS) return undefined;
  const sign = minus ? -1 : 1;
  // "+ 0" turns -0 into 0.
  return { seconds: sign * Number(wholeSeconds) + 0, nanos: sign * parseNanos(fraction) + 0 };
}

/** Formats a duration in seconds with the suffix "s". */
export function formatDuration({ seconds, nanos }: SecondsAndNanos): string {
  const sign = seconds < 0 || nanos < 0 ? '-' : '';
  return `${sign}${Math.abs(seconds)}${nanos === 0 ? '' : `.${formatFraction(Math.abs(nanos))}`}s`;
}

/** Formats nanoseconds as 3, 6 or 9 digits after the decimal point: as few as are exact. */
function formatFraction(nanos: number): string {
  const digits = String(nanos).padStart(9, '0');
  const isExact = (digitCount: number): boolean => /^0*$/.test(digits.slice(digitCount));
  const length = [3, 6, 9].find(isExact) ?? 9;
  return digits.slice(0, length);
}
