import type { JsonObject } from '../kernel/jsonValue';
import type { CodecError, DecodeRequest, EncodeRequest } from './codecRun';
import { removeFences } from './pastedScript';
import type { DecoderInput } from './sandboxProtocol';
import type { ScriptJob } from './worker/messages';

const MAX_SCRIPT_BYTES = 256 * 1024;
const MAX_INPUT_BYTES = 64 * 1024;

/** A job for a thread, or the error of a request that is too large. */
export type JobOrError =
  { readonly job: ScriptJob; readonly error?: undefined } | { readonly job?: undefined; readonly error: CodecError };

/** Creates the job of an encoder. */
export function createEncoderJob({ script, data, fPort, variables, extraInput }: EncodeRequest): JobOrError {
  const input: JsonObject = {
    data,
    ...(fPort === undefined ? {} : { fPort }),
    variables: variables ?? {},
    ...extraInput,
  };
  const text = JSON.stringify(input);
  const sizeError = checkScriptSize(script) ?? checkInputSize("the encoder's input", text);
  return sizeError ?? { job: { role: 'encoder', script: normalizeScript(script), input: text } };
}

/** Creates the job that only compiles a script. */
export function createCompileJob(script: string): JobOrError {
  return checkScriptSize(script) ?? { job: { role: 'encoder', script: normalizeScript(script), input: '' } };
}

/** Creates the job of a decoder. */
export function createDecoderJob({
  script,
  direction,
  bytes,
  fPort,
  recvTime,
  variables,
  extraInput,
}: DecodeRequest): JobOrError {
  const otherInput = {
    ...(fPort === undefined ? {} : { fPort }),
    ...(recvTime === undefined ? {} : { recvTime }),
    variables: variables ?? {},
    ...extraInput,
  };
  const sizeError =
    checkScriptSize(script) ??
    checkPayloadSize(bytes) ??
    checkInputSize("the decoder's input (without the bytes)", JSON.stringify(otherInput));
  if (sizeError) return sizeError;
  const input: DecoderInput = { bytes: [...bytes], ...otherInput };
  return {
    job: {
      role: direction === 'uplink' ? 'uplinkDecoder' : 'downlinkDecoder',
      script: normalizeScript(script),
      input: JSON.stringify(input),
    },
  };
}

/**
 * Removes what editors and documents add to a script: the byte order mark, which would hide a hashbang, the CR of line
 * ends, and the fences of Markdown.
 */
function normalizeScript(script: string): string {
  return removeFences(script.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n'));
}

function checkScriptSize(script: string): JobOrError | undefined {
  const bytes = Buffer.byteLength(script);
  return bytes > MAX_SCRIPT_BYTES
    ? createTooLargeError(`the script has ${bytes} bytes: the maximum is ${MAX_SCRIPT_BYTES}`)
    : undefined;
}

function checkInputSize(subject: string, text: string): JobOrError | undefined {
  const bytes = Buffer.byteLength(text);
  return bytes > MAX_INPUT_BYTES
    ? createTooLargeError(`${subject} has ${bytes} bytes as JSON: the maximum is ${MAX_INPUT_BYTES}`)
    : undefined;
}

function checkPayloadSize({ length }: Uint8Array): JobOrError | undefined {
  return length > MAX_INPUT_BYTES
    ? createTooLargeError(`the payload has ${length} bytes: the maximum is ${MAX_INPUT_BYTES}`)
    : undefined;
}

function createTooLargeError(message: string): JobOrError {
  return { error: { code: 'too_large', message, lineNumber: undefined } };
}
