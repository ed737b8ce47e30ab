import { changedMeanwhile } from './errors';

/** The etag of a record: its revision in double quotes, as HTTP writes one. */
export function etagOf(revision: number): string {
  return `"${revision}"`;
}

/** Throws `changed_meanwhile` if an etag was given and is not that of the record as it is now. `thing` in snake_case. */
export function checkEtag(thing: string, revision: number, given: string | undefined): void {
  const current = etagOf(revision);
  if (given !== undefined && given !== current) throw changedMeanwhile(thing, current);
}
