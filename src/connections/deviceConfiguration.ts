import type { JsonObject } from './connectorType';

const MOST_VARIABLES = 64;
const LONGEST_NAME = 64;
// All together, in whatever script, leave most of what a codec may be given to the parameters and the bytes.
const LONGEST_VALUE = 256;
const LONGEST_PROFILE_ID = 512;

/** The members that the configuration of a physical device may have on every connector, as JSON Schema. */
export const DEVICE_PROPERTIES: JsonObject = {
  profileId: {
    type: 'string',
    minLength: 1,
    maxLength: LONGEST_PROFILE_ID,
    title: 'Device profile',
    description: 'The id of an imported device profile, as ListDeviceProfiles shows it; its decoder reads the bytes that the device sends.',
  },
  variables: {
    type: 'object',
    maxProperties: MOST_VARIABLES,
    propertyNames: { minLength: 1, maxLength: LONGEST_NAME },
    additionalProperties: { type: 'string', maxLength: LONGEST_VALUE },
    title: 'Variables',
    description: 'Texts by name, which encoders and decoders are given as `variables`. Not secret.',
  },
};

/** The profile that a configuration names; undefined: none. What is no text is none either: it was stored before there were profiles. */
export function profileIdOf({ profileId }: JsonObject): string | undefined {
  return typeof profileId === 'string' ? profileId : undefined;
}

/** The variables of a configuration, for encoders and decoders. What is no text was stored before they had rules, and is left out. */
export function variablesOf({ variables }: JsonObject): Readonly<Record<string, string>> {
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) return {};
  const texts = Object.entries(variables).filter((entry): entry is [string, string] => typeof entry[1] === 'string' && entry[1].length <= 2 * LONGEST_VALUE);
  return Object.fromEntries(texts.slice(0, MOST_VARIABLES));
}
