import { atob, btoa } from './base64';
import { define } from './define';
import { TextDecoder, TextEncoder } from './textCoding';

/** What it defines; evaluated only for scripts that name one of these. Exported, because the bundle is smaller for a module with exports. */
export const encodingGlobals = { atob, btoa, TextEncoder, TextDecoder };

define(encodingGlobals);
