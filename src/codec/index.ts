export type { CodecError, CodecErrorCode, DecodeRequest, DecodeResult, EncodeRequest, EncodeResult } from './codecRun';
export { formatCodecError } from './codecRun';
export { ENTRY_POINTS } from './roles';
export { Sandbox, type SandboxOptions } from './sandbox';
