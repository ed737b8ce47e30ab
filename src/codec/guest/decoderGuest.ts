import { downlinkDecoderCall, uplinkDecoderCall } from './decoder';
import { type CallFinder, layGuest } from './guest';

/** What it runs. Exported, because the bundle is smaller for a module with exports. */
export const callOf: CallFinder = (role, found, input) => (role === 'downlinkDecoder' ? downlinkDecoderCall : uplinkDecoderCall)(found, input);

layGuest(callOf);
