/** Words that make a version older than the same version without them. */
const PRE_RELEASE = /^(alpha|beta|pre|preview|rc|dev|draft|test)$/;

type Part = number | string;

/** A version, split into parts for comparison. */
export type Version = readonly Part[];

/**
 * Compares versions. Numbers compare as numbers, so 1.10 is newer than 1.9. A pre-release is older: `1.0-rc2` is older
 * than `1.0`. A leading `v` is ignored. A positive result means that `a` is newer.
 */
export function compareVersions(a: Version, b: Version): number {
  const partCount = Math.max(a.length, b.length);
  for (let index = 0; index < partCount; index += 1) {
    const order = compareParts(a[index], b[index]);
    if (order !== 0) return order;
  }
  return 0;
}

/** Returns the newest version; undefined for an empty list. */
export function pickNewest(versions: readonly string[]): Version | undefined {
  return versions
    .map(parseVersion)
    .reduce<Version | undefined>(
      (newest, version) => (newest === undefined || compareVersions(version, newest) > 0 ? version : newest),
      undefined,
    );
}

/** Parses a version for comparison. */
export function parseVersion(version: string): Version {
  const parts =
    version
      .trim()
      .toLowerCase()
      .replace(/^v(?=[\s._-]*\d)/, '')
      .match(/\d+|\p{L}+/gu) ?? [];
  return parts.map((part) => (/^\d/.test(part) ? Number(part) : part));
}

/** A number is newer than a word, and a word is newer than a missing part, unless it is one of PRE_RELEASE. */
function compareParts(a: Part | undefined, b: Part | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a === b ? 0 : a - b;
  if (typeof a === 'string' && typeof b === 'string' && computeRank(a) === computeRank(b)) return compareTexts(a, b);
  return computeRank(a) - computeRank(b);
}

/** Ranks kinds of parts from old to new: pre-release word 0, missing part 1, other word 2, number 3. */
function computeRank(part: Part | undefined): number {
  if (part === undefined) return 1;
  if (typeof part === 'number') return 3;
  return PRE_RELEASE.test(part) ? 0 : 2;
}

/** Compares texts by code units, which is independent of the locale. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
