import { servingRegions } from '../regions';
import type { Candidate } from './profileRepository';
import { compareTexts, compareVersions, newestOf } from './versions';

/** What must fit. */
export interface Wanted {
  readonly region: string;
  /** Undefined: any. */
  readonly firmwareVersion: string | undefined;
}

/**
 * The one of some profiles that is meant: what was called more exactly goes before everything else, so that no answer is of another model
 * than the one that was named; then the very region before one that serves it, then the newest firmware and hardware. Undefined: none fits.
 */
export function bestProfile(candidates: readonly Candidate[], wanted: Wanted): Candidate | undefined {
  const serving = servingRegions(wanted.region);
  const fitting = candidates.filter(({ region, firmwareVersion }) => serving.includes(region) && (wanted.firmwareVersion === undefined || isSameVersion(firmwareVersion, wanted.firmwareVersion)));
  const order = (a: Candidate, b: Candidate): number => a.rank - b.rank || serving.indexOf(a.region) - serving.indexOf(b.region) || newestFirst(a, b);
  return fitting.toSorted(order)[0];
}

/** The newest firmware first, of one firmware the newest hardware; equal ones by id. */
export function newestFirst(a: Omit<Candidate, 'rank' | 'region'>, b: Omit<Candidate, 'rank' | 'region'>): number {
  return compareVersions(firmwareOf(b.firmwareVersion), firmwareOf(a.firmwareVersion)) || compareHardware(b.hardwareVersions, a.hardwareVersions) || compareTexts(a.id, b.id);
}

/** Whether a version that was asked for is that of a profile. */
export function isSameVersion(version: string, asked: string): boolean {
  return version.toLowerCase() === asked.trim().toLowerCase();
}

// What an import puts behind a version that a device has twice tells of the hardware.
function firmwareOf(version: string): string {
  return version.replace(/-hw.*$/s, '');
}

function compareHardware(a: readonly string[], b: readonly string[]): number {
  const [newestOfA, newestOfB] = [newestOf(a), newestOf(b)];
  if (newestOfA === undefined || newestOfB === undefined) return Number(newestOfA !== undefined) - Number(newestOfB !== undefined);
  return compareVersions(newestOfA, newestOfB);
}
