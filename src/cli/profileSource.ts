import { PROFILE_SOURCES, type ProfileSource } from '../profiles';
import { UsageError } from './exit';
import { plainText } from './plainText';

/** `--source` of a command; undefined: not given. Throws UsageError for what is none of PROFILE_SOURCES. */
export function profileSource(given: string | undefined): ProfileSource | undefined {
  const known = PROFILE_SOURCES.find((source) => source === given);
  if (given !== undefined && known === undefined) throw new UsageError(`--source ${JSON.stringify(plainText(given))} is none; give ${PROFILE_SOURCES.join(' or ')}`);
  return known;
}
