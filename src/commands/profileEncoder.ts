import type { CodecRepository } from '../profiles';
import type { CommandDefinition } from './command';

/** The encoder fields of a definition. */
export type EncoderSource = Pick<CommandDefinition, 'customEncoder' | 'encoderProfileId'>;

/** An encoder, or the reason why the named profile provides none. Both are undefined if no encoder is requested. */
export interface EncoderLookup {
  readonly script: string | undefined;
  /** The end of a sentence about the profile id. */
  readonly problem: string | undefined;
}

/** The maximum size of a command's encoder in bytes; also for a copied one. */
const MAX_BYTES = 262_144;
const NUL = '\0';

/**
 * Finds the encoder of a definition: its custom encoder, otherwise that of the named profile. With a custom encoder the
 * profile only has to exist, or be the profile of the `replaced` definition: a definition that was read can be written
 * back after its profile was deleted.
 */
export async function findEncoder(
  codecs: CodecRepository,
  { customEncoder, encoderProfileId }: EncoderSource,
  replaced?: EncoderSource,
): Promise<EncoderLookup> {
  if (encoderProfileId === undefined) return { script: customEncoder, problem: undefined };
  if (customEncoder === undefined) return await findProfileEncoder(codecs, encoderProfileId);
  const isProfileAccepted =
    replaced?.encoderProfileId === encoderProfileId ||
    (await readEncoderScript(codecs, encoderProfileId)) !== undefined;
  return { script: customEncoder, problem: isProfileAccepted ? undefined : PROFILE_NOT_FOUND };
}

/** Finds the encoder of a profile, or the reason why it cannot be copied into a command. */
async function findProfileEncoder(codecs: CodecRepository, profileId: string): Promise<EncoderLookup> {
  const script = await readEncoderScript(codecs, profileId);
  const problem = script === undefined ? PROFILE_NOT_FOUND : findScriptProblem(script);
  return problem === undefined ? { script: script ?? undefined, problem } : { script: undefined, problem };
}

/** Reads the profile's encoder; null: it has none, undefined: the profile does not exist. */
async function readEncoderScript(codecs: CodecRepository, profileId: string): Promise<string | null | undefined> {
  // A database does not store NUL in text, so such an id cannot exist.
  if (profileId.includes(NUL)) return undefined;
  const file = await codecs.findScriptOfProfile(profileId, 'encoder');
  return file && (file.text || null); // an empty script counts as none
}

/** The end of several error messages. */
const ALTERNATIVE = 'or send the script as customEncoder';
const PROFILE_NOT_FOUND = `profile not found; use an id from ListDeviceProfiles, ${ALTERNATIVE}`;

/**
 * Returns why the encoder of a profile cannot be copied into a command. A command that was read must be valid to write
 * back.
 */
function findScriptProblem(script: string | null): string | undefined {
  if (script === null)
    return `is a profile without a downlink encoder; use one that ListDeviceProfiles lists with encodesDownlinks, ${ALTERNATIVE}`;
  const bytes = Buffer.byteLength(script);
  if (bytes > MAX_BYTES)
    return `is a profile whose encoder has ${bytes} bytes: at most ${MAX_BYTES} are allowed; use another profile, or send a shorter script as customEncoder`;
  return script.includes(NUL)
    ? `is a profile whose encoder contains a NUL character; use another profile, ${ALTERNATIVE}`
    : undefined;
}
