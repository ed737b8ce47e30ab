/** A google.protobuf.Timestamp or Duration as ts-proto holds it. */
export interface SecondsAndNanos {
  readonly seconds: number;
  readonly nanos: number;
}

// 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z.
const FIRST_SECOND = -62_135_596_800;
const LAST_SECOND = 253_402_300_799;
const LONGEST_DURATION = 315_576_000_000;

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** What a time is in JSON, to say in an error. */
export const TIME_FORM = 'a time with its offset, for example "2026-01-31T08:00:00Z"';
/** What a duration is in JSON, to say in an error. */
export const DURATION_FORM = 'a number of seconds with "s", for example "1.5s"';

/** A text after RFC 3339 of the years 1 to 9999; undefined for any other. */
export function timestampOf(text: string): SecondsAndNanos | undefined {
  const match = RFC_3339.exec(text);
  if (!match) return undefined;
  const day = dayOf(match);
  const time = secondsOf(match[4], match[5], match[6]);
  const offset = secondsOf(match[9], match[10], '0');
  if (day === undefined || time === undefined || offset === undefined) return undefined;
  const seconds = day + time + (match[8] === '-' ? offset : -offset);
  return seconds < FIRST_SECOND || seconds > LAST_SECOND ? undefined : { seconds, nanos: nanosOf(match[7]) };
}

/** Seconds from 1970 to a day; undefined for one that is in no calendar. */
function dayOf([, year, month, day]: RegExpExecArray): number | undefined {
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day) ? date.getTime() / 1000 : undefined;
}

function secondsOf(hours = '0', minutes = '0', seconds = '0'): number | undefined {
  const fits = Number(hours) <= 23 && Number(minutes) <= 59 && Number(seconds) <= 59;
  return fits ? Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) : undefined;
}

function nanosOf(digits = ''): number {
  return Number(digits.padEnd(9, '0'));
}

const KEPT_TEXTS = 4096;
const texts = new Map<number, string>();

/** A time in UTC after RFC 3339, with milliseconds, or as many digits more as it takes. */
export function timestampText({ seconds, nanos }: SecondsAndNanos): string {
  const text = millisecondText(seconds * 1000 + Math.floor(nanos / 1_000_000));
  return nanos % 1_000_000 === 0 ? text : `${text.slice(0, -4)}${fraction(nanos, 3)}Z`;
}

// Answers name the same times again and again: of one record, of the records of a page.
function millisecondText(milliseconds: number): string {
  const known = texts.get(milliseconds);
  if (known !== undefined) return known;
  const text = new Date(milliseconds).toISOString();
  if (texts.size >= KEPT_TEXTS) texts.clear();
  texts.set(milliseconds, text);
  return text;
}

/** A text such as "1.5s"; undefined for any other, and for more than 10,000 years. */
export function durationOf(text: string): SecondsAndNanos | undefined {
  const match = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(text);
  if (!match || Number(match[2]) > LONGEST_DURATION) return undefined;
  const sign = match[1] ? -1 : 1;
  // "+ 0" turns -0 into 0.
  return { seconds: sign * Number(match[2]) + 0, nanos: sign * nanosOf(match[3]) + 0 };
}

/** A duration in seconds with "s". */
export function durationText({ seconds, nanos }: SecondsAndNanos): string {
  const sign = seconds < 0 || nanos < 0 ? '-' : '';
  return `${sign}${Math.abs(seconds)}${nanos === 0 ? '' : `.${fraction(Math.abs(nanos), 0)}`}s`;
}

/** Nanoseconds as 3, 6 or 9 digits, at least `least`. */
function fraction(nanos: number, least: number): string {
  const digits = String(nanos).padStart(9, '0');
  const length = [3, 6, 9].find((n) => n >= least && digits.slice(n) === '0'.repeat(9 - n)) ?? 9;
  return digits.slice(0, length);
}
