import { servingRegions } from '../regions';
import { newestFirst, vendorVersionOf } from './newestFirst';
import type { Candidate } from './profileRepository';

/** What must fit. */
export interface Wanted {
  readonly region: string;
  /** Undefined: any. */
  readonly firmwareVersion: string | undefined;
}

/**
 * The one of some profiles that is meant: of those of meantModels the very region goes before one that serves it, then the newest firmware
 * and hardware, whichever repository has it. Undefined: none fits.
 */
export function bestProfile(candidates: readonly Candidate[], wanted: Wanted): Candidate | undefined {
  const serving = servingRegions(wanted.region);
  const fitting = meantModels(candidates).filter((candidate) => serving.includes(candidate.region) && (wanted.firmwareVersion === undefined || isFirmware(candidate, wanted.firmwareVersion)));
  return newestFirst(fitting).toSorted((a, b) => serving.indexOf(a.region) - serving.indexOf(b.region))[0];
}

/** Those of the models that were called most exactly, of both repositories: where these serve no band, another one that is also called so is not meant. */
export function meantModels(candidates: readonly Candidate[]): Candidate[] {
  const best = candidates.reduce((least, { rank }) => Math.min(least, rank), Infinity);
  const models = new Set(candidates.filter(({ rank }) => rank === best).map(modelOf));
  return candidates.filter((candidate) => models.has(modelOf(candidate)));
}

/** `<brand>/<model>`, with which the id begins. */
function modelOf({ id }: Candidate): string {
  return id.split('/', 2).join('/');
}

/** Whether a version that was asked for is that of a profile, as it is stored or as its vendor writes it. */
function isFirmware({ firmwareVersion, hardwareVersions }: Candidate, asked: string): boolean {
  const wanted = asked.trim().toLowerCase();
  return [firmwareVersion, vendorVersionOf(firmwareVersion, hardwareVersions)].some((version) => version.toLowerCase() === wanted);
}
