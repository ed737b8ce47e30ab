import { ENTRY_POINTS } from '../../codec';
import type { CodecRole } from '../profile';

/** The functions that a file of a codec may define for what it does. */
export const ROLE_FUNCTIONS: { readonly [Role in CodecRole]: readonly string[] } = { encoder: ENTRY_POINTS.encoder, decoder: ENTRY_POINTS.uplinkDecoder, downlinkDecoder: ENTRY_POINTS.downlinkDecoder };
