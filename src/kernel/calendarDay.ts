/**
 * Returns the start of a day in UTC, Unix milliseconds; undefined if the date does not exist. `Date.parse` and
 * `Date.UTC` return another day for such a date, for example 2 March for 30 February.
 */
export function getStartOfDay(year: number, month: number, day: number): number | undefined {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const exists = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return exists ? date.getTime() : undefined;
}
