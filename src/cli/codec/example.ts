import { z } from 'zod';
import { jsonProblem, type JsonObject, type JsonValue } from '../../kernel/jsonValue';
import type { CodecRole } from '../../profiles';
import { bytesOfText } from './bytesText';
import { timeOfText } from './timeText';

const whole = (from: number, to: number) => {
  const error = `must be a whole number from ${from} to ${to}`;
  return z.int(error).min(from, error).max(to, error);
};
/** A member that may be left out; null says the same, as it does where a preview is shown. */
const optional = <T extends z.ZodType>(member: T) => member.nullish().transform((value) => value ?? undefined);
/** A list of texts; one text stands for itself, as it does where a script answers. */
const texts = z.preprocess((value) => (typeof value === 'string' ? [value] : value), z.array(z.string('must be a text'), 'must be a list of texts'));
const json = z.unknown().superRefine((value, context) => {
  const problem = value === undefined ? 'is missing; give what the encoder is given' : jsonProblem(value);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});
const bytes = z.preprocess(
  (value) => (typeof value === 'string' ? (bytesOfText(value) ?? value) : value),
  z.array(whole(0, 255), 'must be a list of whole numbers from 0 to 255, or a text of hex digits or base64'),
);
const data = z.record(z.string(), z.unknown(), 'must be an object').superRefine((value, context) => {
  const problem = jsonProblem(value);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});
const variables = optional(z.record(z.string(), z.string('must be a text'), 'must be an object of texts'));
const time = z.string('must be a text').transform((text, context) => {
  const milliseconds = timeOfText(text);
  if (milliseconds === undefined) context.addIssue({ code: 'custom', message: 'must be a time such as 2026-03-01T12:00:00Z' });
  return milliseconds;
});

const encoding = {
  input: z.object({ data: json, fPort: optional(whole(1, 223)), variables }, 'must be an object with data, and optional fPort and variables'),
  expected: z.object({ bytes: optional(bytes), fPort: optional(whole(1, 223)), warnings: optional(texts), errors: optional(texts) }, 'must be an object with bytes or errors, and optional fPort and warnings'),
};
const decoding = {
  input: z.object({ bytes, fPort: optional(whole(0, 255)), recvTime: optional(time), variables }, 'must be an object with bytes, and optional fPort, recvTime and variables'),
  expected: z.object({ data: optional(data), warnings: optional(texts), errors: optional(texts) }, 'must be an object with data or errors, and optional warnings'),
};
const label = optional(z.union([z.string(), z.number()], 'must be a text; name the example').transform(String));
const item = <Input extends z.ZodType, Expected extends z.ZodType>({ input, expected }: { input: Input; expected: Expected }) =>
  z.object({ description: label, name: label, input, output: optional(expected), expected: optional(expected) }, 'must be an object with description, input and output');
const encoderItem = item(encoding);
const decoderItem = item(decoding);

/** What a script is to answer. What is absent is not compared. */
export interface ExpectedTexts {
  readonly warnings?: readonly string[] | undefined;
  readonly errors?: readonly string[] | undefined;
}

interface Named {
  /** What tables call it. */
  readonly name: string;
}

/** One example of an encoder. */
export interface EncoderExample extends Named {
  readonly role: 'encoder';
  readonly input: { readonly data: JsonValue; readonly fPort?: number | undefined; readonly variables?: Readonly<Record<string, string>> | undefined };
  readonly expected: ExpectedTexts & { readonly bytes?: readonly number[] | undefined; readonly fPort?: number | undefined };
}

/** One example of a decoder, of uplinks or of downlinks. */
export interface DecoderExample extends Named {
  readonly role: 'decoder' | 'downlinkDecoder';
  /** `recvTime` in Unix milliseconds. */
  readonly input: { readonly bytes: readonly number[]; readonly fPort?: number | undefined; readonly recvTime?: number | undefined; readonly variables?: Readonly<Record<string, string>> | undefined };
  readonly expected: ExpectedTexts & { readonly data?: JsonObject | undefined };
}

/** An example that cannot be run: it is wrong, or there is nothing to compare. */
export interface IdleExample extends Named {
  readonly result: 'failed' | 'skipped';
  readonly why: string;
}

/** One example of a list. */
export type Example = EncoderExample | DecoderExample | IdleExample;

const MOST_PROBLEMS = 5;

/**
 * Reads item number `at` of a list of examples: our own form and those of both public repositories. `role` undefined: by its input. Never
 * throws; an item that is wrong says so itself, with its place in `file`.
 */
export function exampleOf(given: unknown, at: number, file: string, role: CodecRole = roleOf(given)): Example {
  const parsed = (role === 'encoder' ? encoderItem : decoderItem).safeParse(given);
  if (!parsed.success) return { name: nameOf(given, at), result: 'failed', why: `${file}: ${problemsOf(parsed.error, at)}` };
  const { input } = parsed.data;
  const expected = parsed.data.output ?? parsed.data.expected ?? {};
  const name = nameOf(parsed.data, at);
  if (Object.values(expected).every((member) => member === undefined)) return { name, result: 'skipped', why: `nothing to compare: give ${role === 'encoder' ? 'output.bytes' : 'output.data'} or output.errors` };
  return { name, role, input, expected } as Example;
}

function roleOf(given: unknown): CodecRole {
  const { input } = (given ?? {}) as { input?: { data?: unknown; bytes?: unknown } | null };
  return (input?.bytes ?? undefined) !== undefined && input?.data === undefined ? 'decoder' : 'encoder';
}

function nameOf(given: unknown, at: number): string {
  const { description, name } = (given ?? {}) as { description?: unknown; name?: unknown };
  return [description, name].find((text): text is string => typeof text === 'string' && text !== '') ?? `[${at}]`;
}

function problemsOf({ issues }: z.ZodError, at: number): string {
  return issues.slice(0, MOST_PROBLEMS).map(({ path, message }) => `[${at}]${path.map(placeOf).join('')}: ${message}`).join('; ');
}

function placeOf(step: PropertyKey): string {
  return typeof step === 'number' ? `[${step}]` : `.${String(step)}`;
}
