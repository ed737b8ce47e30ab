export type { CodecError, CodecErrorCode, EncodeRequest, EncodeResult } from './codecRun';
export { Sandbox, type SandboxOptions } from './sandbox';
