import { findEncoderCall } from './encoder';
import { type CallFinder, installGuest } from './guest';

/** The encoders that this bundle runs. Exported only because the bundle is smaller for a module with exports. */
export const findCall: CallFinder = (_role, definitions, input) => findEncoderCall(definitions, input);

installGuest(findCall);
