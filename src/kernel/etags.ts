import { versionConflict } from './errors';

/** Returns the etag of a record: its revision in double quotes, as in HTTP. */
export function getEtag(revision: number): string {
  return `"${revision}"`;
}

/**
 * Throws `version_conflict` if the request sets an etag that does not match the current revision. `resourceType`: in
 * snake_case.
 */
export function checkEtag(resourceType: string, revision: number, requested: string | undefined): void {
  const current = getEtag(revision);
  if (requested !== undefined && requested !== current) throw versionConflict(resourceType, current);
}
