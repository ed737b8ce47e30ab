/** Words that make a version older than the same one without them. */
const BEFORE = /^(alpha|beta|pre|preview|rc|dev|draft|test)$/;

type Part = number | string;

/** A version in the parts by which it is compared. */
export type Version = readonly Part[];

/**
 * Orders versions as people count: numbers as numbers, so that 1.10 is newer than 1.9, and `1.0-rc2` older than `1.0`. A leading `v` says
 * nothing. Positive: `a` is newer.
 */
export function compareVersions(a: Version, b: Version): number {
  const parts = Math.max(a.length, b.length);
  for (let at = 0; at < parts; at += 1) {
    const order = compareParts(a[at], b[at]);
    if (order !== 0) return order;
  }
  return 0;
}

/** The newest of some versions; undefined of none. */
export function newestOf(versions: readonly string[]): Version | undefined {
  return versions.map(versionOf).reduce<Version | undefined>((newest, version) => (newest === undefined || compareVersions(version, newest) > 0 ? version : newest), undefined);
}

/** A version as it is compared. */
export function versionOf(version: string): Version {
  const parts = version.trim().toLowerCase().replace(/^v(?=[\s._-]*\d)/, '').match(/\d+|\p{L}+/gu) ?? [];
  return parts.map((part) => (/^\d/.test(part) ? Number(part) : part));
}

/** A number is newer than a word, and a word than nothing, unless it is one of BEFORE. */
function compareParts(a: Part | undefined, b: Part | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a === b ? 0 : a - b;
  if (typeof a === 'string' && typeof b === 'string' && rankOf(a) === rankOf(b)) return compareTexts(a, b);
  return rankOf(a) - rankOf(b);
}

function rankOf(part: Part | undefined): number {
  if (part === undefined) return 1;
  if (typeof part === 'number') return 3;
  return BEFORE.test(part) ? 0 : 2;
}

/** By code units, the same everywhere. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
