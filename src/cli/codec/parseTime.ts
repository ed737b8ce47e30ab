import { parseIsoTime } from '../isoTime';

const TIME_PATTERN = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/i;

/** Parses a time such as `2026-03-01T12:00:00Z` to Unix milliseconds; without a zone it is UTC. Undefined: invalid. */
export function parseTime(text: string): number | undefined {
  const match = TIME_PATTERN.exec(text);
  const milliseconds = match ? parseIsoTime(match[1] ? text : `${text}Z`) : NaN;
  return Number.isNaN(milliseconds) ? undefined : milliseconds;
}
