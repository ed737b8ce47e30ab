import { text } from 'node:stream/consumers';
import type { CodecError, DecodeRequest, EncodeRequest } from '../../codec';
import { jsonProblem, type JsonValue } from '../../kernel/jsonValue';
import { Reported, UsageError } from '../exit';
import { note, sayJson } from '../output';
import { plainText } from '../plainText';
import { bytesOfText } from './bytesText';
import { showDecoding, showPreview } from './showRun';
import { parseJson, readTextFile } from './textFile';
import { decodingOf, previewOf, withSandboxOf, type CodecFlags } from './workbench';

/** What `plantroom codec run` is given. */
export interface RunFlags extends CodecFlags {
  readonly script: string;
  /** Of an encoder. */
  readonly input?: string;
  /** Of a decoder. */
  readonly bytes?: string;
  readonly fport?: number;
  readonly variables?: string;
  /** Unix milliseconds. */
  readonly recvTime?: number;
  readonly downlink?: boolean;
}

type Common = Pick<EncodeRequest, 'owner' | 'script' | 'fPort' | 'variables'>;

/** `plantroom codec run`: one encoder with one input, or one decoder with its bytes. Exit code 1 when the script failed. */
export async function runCodecRun(flags: RunFlags): Promise<void> {
  checkFlags(flags);
  const script = readTextFile(flags.script);
  const variables = flags.variables === undefined ? {} : variablesOf(jsonOf(flags.variables, '--variables'));
  const common = { owner: 'command line', script, fPort: flags.fport, variables };
  const error = flags.bytes === undefined ? await runEncoder(flags, common) : await runDecoder(flags, common, flags.bytes);
  if (!error) return;
  if (!flags.json) note(failureText(error, flags.script, script));
  throw new Reported(1);
}

async function runEncoder(flags: RunFlags, common: Common): Promise<CodecError | undefined> {
  const data = jsonOf(flags.input === '-' ? await text(process.stdin) : (flags.input ?? ''), '--input');
  const result = await withSandboxOf(flags, 1, (sandbox) => sandbox.encode({ ...common, data }));
  const preview = previewOf(result, flags.fport);
  if (flags.json) sayJson(preview);
  else showPreview(preview);
  return result.error;
}

async function runDecoder(flags: RunFlags, common: Common, given: string): Promise<CodecError | undefined> {
  const bytes = bytesOfText(given);
  if (!bytes) throw new UsageError('--bytes must be hex digits, two for each byte, such as "01 28", or base64');
  const request: DecodeRequest = { ...common, direction: flags.downlink ? 'downlink' : 'uplink', bytes: Uint8Array.from(bytes), recvTime: flags.recvTime };
  const result = await withSandboxOf(flags, 1, (sandbox) => sandbox.decode(request));
  const decoding = decodingOf(result);
  if (flags.json) sayJson(decoding);
  else showDecoding(decoding);
  return result.error;
}

function checkFlags({ input, bytes, fport, recvTime, downlink }: RunFlags): void {
  if ((input === undefined) === (bytes === undefined)) throw new UsageError('give either --input, which runs the encoder, or --bytes, which runs the decoder');
  if (bytes !== undefined) return;
  if (recvTime !== undefined || downlink) throw new UsageError('--recv-time and --downlink are of decoders; give them with --bytes');
  if (fport !== undefined && (fport < 1 || fport > 223)) throw new UsageError(`--fport ${fport} is no port of a command; give a whole number from 1 to 223`);
}

/** The error with the line of the script that it names, marks under it, and the line before. */
export function failureText({ code, message, lineNumber }: CodecError, file: string, script: string): string {
  const head = `plantroom: ${file}${lineNumber === undefined ? '' : `:${lineNumber}`}: ${code}: ${plainText(message, 2000)}`;
  if (lineNumber === undefined) return head;
  const width = String(lineNumber).length;
  const [before, line] = [lineNumber - 1, lineNumber].map((number) => plainText((script.split('\n')[number - 1] ?? '').trimEnd(), 160));
  const shown = line ?? '';
  const blanks = shown.length - shown.trimStart().length;
  const marks = ' '.repeat(blanks) + '^'.repeat(Math.max(1, shown.length - blanks));
  const lines = [...(lineNumber > 1 ? [[lineNumber - 1, before]] : []), [lineNumber, shown], ['', marks]];
  return [head, ...lines.map(([number, text]) => `  ${String(number).padStart(width)} | ${text}`.trimEnd())].join('\n');
}

function jsonOf(given: string, option: string): JsonValue {
  const value = parseJson(given, option);
  const problem = jsonProblem(value);
  if (problem) throw new UsageError(`${option} ${problem}`);
  return value as JsonValue;
}

function variablesOf(value: JsonValue): Readonly<Record<string, string>> {
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isRecord || Object.values(value).some((member) => typeof member !== 'string')) throw new UsageError('--variables must be an object of texts, for example \'{"key": "value"}\'');
  return value as Readonly<Record<string, string>>;
}
