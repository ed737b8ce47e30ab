const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/i;

/** Unix milliseconds of a time such as `2026-03-01T12:00:00Z`; without a zone it is UTC. Undefined: it is none. */
export function timeOfText(text: string): number | undefined {
  const match = TIME.exec(text);
  const milliseconds = match ? Date.parse(match[1] ? text : `${text}Z`) : NaN;
  return Number.isNaN(milliseconds) ? undefined : milliseconds;
}
