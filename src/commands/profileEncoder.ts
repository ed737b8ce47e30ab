import type { CodecRepository } from '../profiles';
import type { CommandDefinition } from './command';

/** What a definition says of its encoder. */
export type EncoderSource = Pick<CommandDefinition, 'customEncoder' | 'encoderProfileId'>;

/** An encoder, or why the profile that was named gives none; neither: none is wanted. */
export interface FoundEncoder {
  readonly script: string | undefined;
  /** The end of a sentence about the profile's id. */
  readonly problem: string | undefined;
}

/** The most bytes of an encoder in a command, which a copied one is too. */
const MOST_BYTES = 262_144;
const NUL = '\0';

/**
 * The encoder of a definition: its own, else that of the profile that it names. Beside a script of its own the profile only has to be there,
 * and not even that if the definition that is `replaced` named it too: what was read can be written back after the profile was removed.
 */
export async function findEncoder(codecs: CodecRepository, { customEncoder, encoderProfileId }: EncoderSource, replaced?: EncoderSource): Promise<FoundEncoder> {
  if (encoderProfileId === undefined) return { script: customEncoder, problem: undefined };
  if (customEncoder === undefined) return await encoderOfProfile(codecs, encoderProfileId);
  const isKnown = replaced?.encoderProfileId === encoderProfileId || (await find(codecs, encoderProfileId)) !== undefined;
  return { script: customEncoder, problem: isKnown ? undefined : UNKNOWN };
}

async function encoderOfProfile(codecs: CodecRepository, profileId: string): Promise<FoundEncoder> {
  const script = await find(codecs, profileId);
  const problem = script === undefined ? UNKNOWN : scriptProblem(script);
  return problem === undefined ? { script: script ?? undefined, problem } : { script: undefined, problem };
}

/** The profile's encoder; null: it has none, undefined: there is no such profile. */
async function find(codecs: CodecRepository, profileId: string): Promise<string | null | undefined> {
  // What a database takes for no text at all is no id either.
  if (profileId.includes(NUL)) return undefined;
  const file = await codecs.findScriptOfProfile(profileId, 'encoder');
  return file && (file.text || null);
}

const INSTEAD = 'or the script itself as customEncoder';
const UNKNOWN = `no such profile was imported; give the id of one that ListDeviceProfiles shows, ${INSTEAD}`;

/** Why the encoder of a profile cannot be copied into a command: what the command answers must be good to be written back. */
function scriptProblem(script: string | null): string | undefined {
  if (script === null) return `is a profile that encodes no downlinks; give one that ListDeviceProfiles shows with encodesDownlinks, ${INSTEAD}`;
  const bytes = Buffer.byteLength(script);
  if (bytes > MOST_BYTES) return `is a profile whose encoder has ${bytes} bytes, and a command takes ${MOST_BYTES}; give another profile, or a shorter script as customEncoder`;
  return script.includes(NUL) ? `is a profile whose encoder holds the character NUL; give another profile, ${INSTEAD}` : undefined;
}
