import { text } from 'node:stream/consumers';
import type { CodecError, DecodeRequest, EncodeRequest } from '../../codec';
import { findJsonProblem, type JsonValue } from '../../kernel/jsonValue';
import { AlreadyReportedError, UsageError } from '../exit';
import { note, printJson } from '../output';
import { toPlainText } from '../plainText';
import { parseBytes } from './parseBytes';
import { showDecoderResult, showPreview } from './showRun';
import { parseJson, readTextFile } from './textFile';
import { toDecoderResult, toPreview, withSandbox, type CodecFlags } from './codecRunner';

/** Options of `plantroom codec run`. */
export interface RunFlags extends CodecFlags {
  readonly script: string;
  /** Input of an encoder. */
  readonly input?: string;
  /** Input of a decoder. */
  readonly bytes?: string;
  readonly fport?: number;
  readonly variables?: string;
  /** Unix milliseconds. */
  readonly recvTime?: number;
  readonly downlink?: boolean;
}

/** The part of a request that encoders and decoders have in common. */
type CommonRequest = Pick<EncodeRequest, 'owner' | 'script' | 'fPort' | 'variables'>;

/**
 * Runs `plantroom codec run`: one encoder with one input, or one decoder with its bytes. Exit code 1 if the script
 * failed.
 */
export async function runCodecRun(flags: RunFlags): Promise<void> {
  checkFlags(flags);
  const script = readTextFile(flags.script);
  const variables = flags.variables === undefined ? {} : getVariables(parseJsonText(flags.variables, '--variables'));
  const common = { owner: 'command line', script, fPort: flags.fport, variables };
  const error =
    flags.bytes === undefined ? await runEncoder(flags, common) : await runDecoder(flags, common, flags.bytes);
  if (!error) return;
  if (!flags.json) note(formatFailure(error, flags.script, script));
  throw new AlreadyReportedError(1);
}

/** Runs the script as an encoder, and shows the result. Returns the error of the script; undefined if it succeeded. */
async function runEncoder(flags: RunFlags, common: CommonRequest): Promise<CodecError | undefined> {
  const data = parseJsonText(flags.input === '-' ? await text(process.stdin) : (flags.input ?? ''), '--input');
  const result = await withSandbox(flags, { maxWorkers: 1 }, (sandbox) => sandbox.encode({ ...common, data }));
  const preview = toPreview(result, flags.fport);
  if (flags.json) printJson(preview);
  else showPreview(preview);
  return result.error;
}

/** Runs the script as a decoder, and shows the result. Returns the error of the script; undefined if it succeeded. */
async function runDecoder(flags: RunFlags, common: CommonRequest, bytesText: string): Promise<CodecError | undefined> {
  const bytes = parseBytes(bytesText);
  if (!bytes) throw new UsageError('--bytes must be hex digits, two per byte, such as "01 28", or base64');
  const request: DecodeRequest = {
    ...common,
    direction: flags.downlink ? 'downlink' : 'uplink',
    bytes: Uint8Array.from(bytes),
    recvTime: flags.recvTime,
  };
  const result = await withSandbox(flags, { maxWorkers: 1 }, (sandbox) => sandbox.decode(request));
  const decoding = toDecoderResult(result);
  if (flags.json) printJson(decoding);
  else showDecoderResult(decoding);
  return result.error;
}

/**
 * Throws UsageError unless the flags select either an encoder (--input) or a decoder (--bytes) and fit to it. Commands
 * can use the LoRaWAN ports 1 to 223, while uplinks may have any port.
 */
function checkFlags({ input, bytes, fport, recvTime, downlink }: RunFlags): void {
  const isEncoder = input !== undefined;
  const isDecoder = bytes !== undefined;
  if (isEncoder === isDecoder)
    throw new UsageError('set either --input to run the encoder, or --bytes to run the decoder');
  if (isDecoder) return;
  if (recvTime !== undefined || downlink)
    throw new UsageError('--recv-time and --downlink apply to decoders: add --bytes');
  if (fport !== undefined && (fport < 1 || fport > 223))
    throw new UsageError(`--fport must be a whole number from 1 to 223 for a command (got ${fport})`);
}

/** Formats an error with the line of the script, a marker below it, and the line before. */
function formatFailure({ code, message, lineNumber }: CodecError, file: string, script: string): string {
  const head = `plantroom: ${file}${lineNumber === undefined ? '' : `:${lineNumber}`}: ${code}: ${toPlainText(message, 2000)}`;
  if (lineNumber === undefined) return head;
  const width = String(lineNumber).length;
  const [previousLine, line] = [lineNumber - 1, lineNumber].map((number) =>
    toPlainText((script.split('\n')[number - 1] ?? '').trimEnd(), 160),
  );
  const scriptLine = line ?? '';
  const indent = scriptLine.length - scriptLine.trimStart().length;
  const marker = ' '.repeat(indent) + '^'.repeat(Math.max(1, scriptLine.length - indent));
  const lines = [...(lineNumber > 1 ? [[lineNumber - 1, previousLine]] : []), [lineNumber, scriptLine], ['', marker]];
  return [head, ...lines.map(([number, text]) => `  ${String(number).padStart(width)} | ${text}`.trimEnd())].join('\n');
}

/** Parses a JSON text. Throws UsageError if it is invalid, or not a value that scripts may receive. */
function parseJsonText(text: string, option: string): JsonValue {
  const value = parseJson(text, option);
  const problem = findJsonProblem(value);
  if (problem) throw new UsageError(`${option} ${problem}`);
  return value as JsonValue;
}

/** Returns the value of --variables. Throws UsageError unless it is an object with string values. */
function getVariables(value: JsonValue): Readonly<Record<string, string>> {
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isRecord || Object.values(value).some((item) => typeof item !== 'string'))
    throw new UsageError('--variables must be an object with string values, for example \'{"key": "value"}\'');
  return value as Readonly<Record<string, string>>;
}
