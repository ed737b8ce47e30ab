import { ENTRY_POINTS } from '../../codec';
import type { CodecRole } from '../profile';

/** The function names that a codec file may define for each role. */
export const ROLE_FUNCTIONS: { readonly [Role in CodecRole]: readonly string[] } = {
  encoder: ENTRY_POINTS.encoder,
  decoder: ENTRY_POINTS.uplinkDecoder,
  downlinkDecoder: ENTRY_POINTS.downlinkDecoder,
};
