import { atob, btoa } from './base64';
import { define } from './define';
import { TextDecoder, TextEncoder } from './textCoding';

/**
 * The text encodings, evaluated only for scripts that name one of them. Exported only because the bundle is smaller for
 * a module with exports.
 */
export const encodingGlobals = { atob, btoa, TextEncoder, TextDecoder };

define(encodingGlobals);
