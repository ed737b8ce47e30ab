export type { CodecError, CodecErrorCode, DecodeRequest, DecodeResult, EncodeRequest, EncodeResult } from './codecRun';
export { Sandbox, type SandboxOptions } from './sandbox';
