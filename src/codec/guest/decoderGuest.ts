import { findDownlinkDecoderCall, findUplinkDecoderCall } from './decoder';
import { type CallFinder, installGuest } from './guest';

/** The decoders that this bundle runs. Exported only because the bundle is smaller for a module with exports. */
export const findCall: CallFinder = (role, definitions, input) =>
  (role === 'downlinkDecoder' ? findDownlinkDecoderCall : findUplinkDecoderCall)(definitions, input);

installGuest(findCall);
