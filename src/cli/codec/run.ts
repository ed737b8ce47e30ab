import { text } from 'node:stream/consumers';
import type { CodecError } from '../../codec';
import { jsonProblem, type JsonValue } from '../../kernel/jsonValue';
import { Reported, UsageError } from '../exit';
import { note, say, showRecord } from '../output';
import { parseJson, readTextFile } from './textFile';
import { plainText, previewOf, spacedHex, withSandboxOf, type CodecFlags, type Preview } from './workbench';

/** What `plantroom codec run` is given. */
export interface RunFlags extends CodecFlags {
  readonly script: string;
  readonly input: string;
  readonly fport?: number;
  readonly variables?: string;
}

/** `plantroom codec run`: one encoder, one input. Exit code 1 when the encoder failed. */
export async function runCodecRun(flags: RunFlags): Promise<void> {
  const script = readTextFile(flags.script);
  const data = jsonOf(flags.input === '-' ? await text(process.stdin) : flags.input, '--input');
  const variables = flags.variables === undefined ? {} : variablesOf(jsonOf(flags.variables, '--variables'));
  const result = await withSandboxOf(flags, 1, (sandbox) => sandbox.encode({ owner: 'command line', script, data, fPort: flags.fport, variables }));
  const preview = previewOf(result, flags.fport);
  if (flags.json) say(JSON.stringify(preview));
  else showPreview(preview);
  if (!result.error) return;
  if (!flags.json) note(failureText(result.error, flags.script, script));
  throw new Reported(1);
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

function showPreview({ output, logs, warnings, executionTimeMs }: Preview): void {
  const bytes = output && { bytes: spacedHex(output.bytes), base64: output.bytesBase64, list: `[${output.bytes.join(', ')}]`, fPort: output.fPort };
  showRecord({ ...bytes, time: `${executionTimeMs.toFixed(2)} ms` }, {});
  for (const [name, lines] of Object.entries({ warnings, logs })) {
    if (lines.length > 0) say([`${name}:`, ...lines.map((line) => `  ${plainText(line, 2000)}`)].join('\n'));
  }
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
