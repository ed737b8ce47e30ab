import type { JsonObject } from '../kernel/jsonValue';
import type { CodecError, DecodeRequest, EncodeRequest } from './codecRun';
import type { DecoderInput } from './guestWords';
import type { Job } from './worker/messages';

const SCRIPT_BYTES = 256 * 1024;
const INPUT_BYTES = 64 * 1024;

/** A job for a thread, or the error of a request that is too large to become one. */
export type JobOrError = { readonly job: Job; readonly error?: undefined } | { readonly job?: undefined; readonly error: CodecError };

/** The job of an encoder. */
export function encoderJob({ script, data, fPort, variables }: EncodeRequest): JobOrError {
  const input: JsonObject = { data, ...(fPort === undefined ? {} : { fPort }), variables: variables ?? {} };
  const text = JSON.stringify(input);
  const problem = scriptProblem(script) ?? inputProblem("the encoder's input", text);
  return problem ?? { job: { role: 'encoder', script: plain(script), input: text } };
}

/** The job of a decoder. */
export function decoderJob({ script, direction, bytes, fPort, recvTime, variables }: DecodeRequest): JobOrError {
  const around = { ...(fPort === undefined ? {} : { fPort }), ...(recvTime === undefined ? {} : { recvTime }), variables: variables ?? {} };
  const problem = scriptProblem(script) ?? bytesProblem(bytes) ?? inputProblem("the decoder's input beside the bytes", JSON.stringify(around));
  if (problem) return problem;
  const input: DecoderInput = { bytes: [...bytes], ...around };
  return { job: { role: direction === 'uplink' ? 'uplinkDecoder' : 'downlinkDecoder', script: plain(script), input: JSON.stringify(input) } };
}

/** A script less what editors put into it: the mark before it, behind which no hashbang is known as one, and the CR of line ends. */
function plain(script: string): string {
  return script.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
}

function scriptProblem(script: string): JobOrError | undefined {
  const bytes = Buffer.byteLength(script);
  return bytes > SCRIPT_BYTES ? tooLarge(`the script has ${bytes} bytes; at most ${SCRIPT_BYTES} are taken`) : undefined;
}

function inputProblem(what: string, text: string): JobOrError | undefined {
  const bytes = Buffer.byteLength(text);
  return bytes > INPUT_BYTES ? tooLarge(`${what} has ${bytes} bytes as JSON; at most ${INPUT_BYTES} are taken`) : undefined;
}

function bytesProblem({ length }: Uint8Array): JobOrError | undefined {
  return length > INPUT_BYTES ? tooLarge(`there are ${length} bytes to decode; at most ${INPUT_BYTES} are taken`) : undefined;
}

function tooLarge(message: string): JobOrError {
  return { error: { code: 'too_large', message, lineNumber: undefined } };
}
