import { atob, btoa } from './base64';
import { define } from './define';
import { TextDecoder, TextEncoder } from './textCoding';

// Evaluated only for scripts that name one of these.
define({ atob, btoa, TextEncoder, TextDecoder });
