import type { JsonObject } from './connectorType';

const MAX_VARIABLES = 64;
const MAX_NAME_LENGTH = 64;
// All variables together leave most of the input size of a codec to the parameters and the bytes, in any script.
const MAX_VALUE_LENGTH = 256;
const MAX_PROFILE_ID_LENGTH = 512;

/** The fields that the configuration of a physical device may have on every connector, as JSON Schema. */
export const DEVICE_PROPERTIES: JsonObject = {
  profileId: {
    type: 'string',
    minLength: 1,
    maxLength: MAX_PROFILE_ID_LENGTH,
    title: 'Device profile',
    description:
      'The id of an imported device profile (see ListDeviceProfiles). Its decoder reads the bytes that the device sends.',
  },
  variables: {
    type: 'object',
    maxProperties: MAX_VARIABLES,
    propertyNames: { minLength: 1, maxLength: MAX_NAME_LENGTH },
    additionalProperties: { type: 'string', maxLength: MAX_VALUE_LENGTH },
    title: 'Variables',
    description: 'Strings by name that encoders and decoders receive as `variables`. Not secret.',
  },
};

/**
 * Returns the profile id of a configuration; undefined if there is none. A value that is not a string was stored before
 * profiles existed and is ignored.
 */
export function findProfileId({ profileId }: JsonObject): string | undefined {
  return typeof profileId === 'string' ? profileId : undefined;
}

/**
 * Returns the variables of a configuration for encoders and decoders. Values that are not strings or too long, and
 * variables beyond the 64th, were stored before they were validated and are omitted.
 */
export function getVariables({ variables }: JsonObject): Readonly<Record<string, string>> {
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) return {};
  // The schema limits characters, each of which has at most 2 UTF-16 code units.
  const validEntries = Object.entries(variables).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string' && entry[1].length <= 2 * MAX_VALUE_LENGTH,
  );
  return Object.fromEntries(validEntries.slice(0, MAX_VARIABLES));
}
