import { listServingRegions } from '../regions';
import { sortNewestFirst, getVendorVersion } from './newestFirst';
import type { Candidate } from './profileRepository';

/** The requirements for a profile. */
interface ProfileRequirements {
  readonly region: string;
  /** Undefined: any version. */
  readonly firmwareVersion: string | undefined;
}

/**
 * Selects the profile that fits best, from the models that match most exactly. The exact region has priority over a
 * region that also fits, then the newest firmware and hardware, regardless of the repository. Returns undefined if none
 * fits.
 */
export function selectBestProfile(
  candidates: readonly Candidate[],
  wanted: ProfileRequirements,
): Candidate | undefined {
  const regions = listServingRegions(wanted.region);
  const fitting = selectBestMatches(candidates).filter(
    (candidate) =>
      regions.includes(candidate.region) &&
      (wanted.firmwareVersion === undefined || hasFirmwareVersion(candidate, wanted.firmwareVersion)),
  );
  // The sort is stable: within a region, the newest one stays the first.
  return sortNewestFirst(fitting).toSorted((a, b) => regions.indexOf(a.region) - regions.indexOf(b.region))[0];
}

/**
 * Returns the profiles of the models that match the requested names most exactly (the lowest rank), from both
 * repositories: a model of one repository may have a worse rank in the other. A model that
 * matches less exactly is not used, even if it is the only one with the requested band.
 */
export function selectBestMatches(candidates: readonly Candidate[]): Candidate[] {
  const bestRank = candidates.reduce((min, { rank }) => Math.min(min, rank), Infinity);
  const bestModelKeys = new Set(candidates.filter(({ rank }) => rank === bestRank).map(getModelKey));
  return candidates.filter((candidate) => bestModelKeys.has(getModelKey(candidate)));
}

/** Returns `<brand>/<model>`, the start of the id. */
function getModelKey({ id }: Candidate): string {
  return id.split('/', 2).join('/');
}

/** Returns whether the profile has the requested firmware version, as stored or as the vendor writes it. */
function hasFirmwareVersion({ firmwareVersion, hardwareVersions }: Candidate, requested: string): boolean {
  const expected = requested.trim().toLowerCase();
  return [firmwareVersion, getVendorVersion(firmwareVersion, hardwareVersions)].some(
    (version) => version.toLowerCase() === expected,
  );
}
