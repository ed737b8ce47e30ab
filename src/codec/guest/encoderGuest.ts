import { encoderCall } from './encoder';
import { type CallFinder, layGuest } from './guest';

/** What it runs. Exported, because the bundle is smaller for a module with exports. */
export const callOf: CallFinder = (_role, found, input) => encoderCall(found, input);

layGuest(callOf);
