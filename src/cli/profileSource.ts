import { PROFILE_SOURCES, type ProfileSource } from '../profiles';
import { UsageError } from './exit';
import { toPlainText } from './plainText';

/** Parses the value of `--source`; undefined if the flag is not set. Throws UsageError for an unknown source. */
export function parseProfileSource(given: string | undefined): ProfileSource | undefined {
  const known = PROFILE_SOURCES.find((source) => source === given);
  if (given !== undefined && known === undefined)
    throw new UsageError(
      `--source ${JSON.stringify(toPlainText(given))} is not a source: use ${PROFILE_SOURCES.join(' or ')}`,
    );
  return known;
}
