import { getStartOfDay } from '../kernel/calendarDay';

/**
 * Parses a text that starts with a date such as `2026-01-31`, and that Date.parse can read. Returns Unix milliseconds;
 * NaN if the day or the time does not exist.
 */
export function parseIsoTime(text: string): number {
  const [year, month, day] = text.slice(0, 10).split('-').map(Number) as [number, number, number];
  return getStartOfDay(year, month, day) === undefined ? Number.NaN : Date.parse(text);
}
