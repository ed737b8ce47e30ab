import { z } from 'zod';
import { findJsonProblem, type JsonObject, type JsonValue } from '../../kernel/jsonValue';
import type { CodecRole } from '../../profiles';
import { parseBytes } from './parseBytes';
import { parseTime } from './parseTime';

const createWholeNumberSchema = (from: number, to: number) => {
  const error = `must be a whole number from ${from} to ${to}`;
  return z.int(error).min(from, error).max(to, error);
};
/** An optional field; null counts as absent, as in a preview. */
const createOptionalSchema = <T extends z.ZodType>(field: T) =>
  field.nullish().transform((value) => value ?? undefined);
/** A list of strings; a single string counts as a list of one, as in script results. */
const stringList = z.preprocess(
  (value) => (typeof value === 'string' ? [value] : value),
  z.array(z.string('must be a string'), 'must be a list of strings'),
);
const json = z.unknown().superRefine((value, context) => {
  const problem = value === undefined ? 'is required: set the input of the encoder' : findJsonProblem(value);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});
const bytes = z.preprocess(
  (value) => (typeof value === 'string' ? (parseBytes(value) ?? value) : value),
  z.array(
    createWholeNumberSchema(0, 255),
    'must be a list of whole numbers from 0 to 255, or a string of hex digits or base64',
  ),
);
const data = z.record(z.string(), z.unknown(), 'must be an object').superRefine((value, context) => {
  const problem = findJsonProblem(value);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});
const variables = createOptionalSchema(
  z.record(z.string(), z.string('must be a string'), 'must be an object with string values'),
);
const time = z.string('must be a string').transform((text, context) => {
  const milliseconds = parseTime(text);
  if (milliseconds === undefined)
    context.addIssue({ code: 'custom', message: 'must be a time such as 2026-03-01T12:00:00Z' });
  return milliseconds;
});

const encoding = {
  input: z.object(
    { data: json, fPort: createOptionalSchema(createWholeNumberSchema(1, 223)), variables },
    'must be an object with data, and optional fPort and variables',
  ),
  expected: z.object(
    {
      bytes: createOptionalSchema(bytes),
      fPort: createOptionalSchema(createWholeNumberSchema(1, 223)),
      warnings: createOptionalSchema(stringList),
      errors: createOptionalSchema(stringList),
    },
    'must be an object with bytes or errors, and optional fPort and warnings',
  ),
};
const decoding = {
  input: z.object(
    {
      bytes,
      fPort: createOptionalSchema(createWholeNumberSchema(0, 255)),
      recvTime: createOptionalSchema(time),
      variables,
    },
    'must be an object with bytes, and optional fPort, recvTime and variables',
  ),
  expected: z.object(
    {
      data: createOptionalSchema(data),
      warnings: createOptionalSchema(stringList),
      errors: createOptionalSchema(stringList),
    },
    'must be an object with data or errors, and optional warnings',
  ),
};
const label = createOptionalSchema(
  z.union([z.string(), z.number()], 'must be a string: set the name of the example').transform(String),
);
const createItemSchema = <Input extends z.ZodType, Expected extends z.ZodType>({
  input,
  expected,
}: {
  input: Input;
  expected: Expected;
}) =>
  z.object(
    {
      description: label,
      name: label,
      input,
      output: createOptionalSchema(expected),
      expected: createOptionalSchema(expected),
    },
    'must be an object with description, input and output',
  );
const encoderItem = createItemSchema(encoding);
const decoderItem = createItemSchema(decoding);

/** The expected result of a script. Absent values are not compared. */
interface ExpectedTexts {
  readonly warnings?: readonly string[] | undefined;
  readonly errors?: readonly string[] | undefined;
}

interface NamedExample {
  /** The name in tables. */
  readonly name: string;
}

/** One example of an encoder. */
export interface EncoderExample extends NamedExample {
  readonly role: 'encoder';
  readonly input: {
    readonly data: JsonValue;
    readonly fPort?: number | undefined;
    readonly variables?: Readonly<Record<string, string>> | undefined;
  };
  /** Unknown fields of `input`; they are passed to the script. */
  readonly extraInput: JsonObject;
  readonly expected: ExpectedTexts & {
    readonly bytes?: readonly number[] | undefined;
    readonly fPort?: number | undefined;
  };
}

/** One example of a decoder, for uplinks or downlinks. */
export interface DecoderExample extends NamedExample {
  readonly role: 'decoder' | 'downlinkDecoder';
  /** The decoder input; `recvTime` in Unix milliseconds. */
  readonly input: {
    readonly bytes: readonly number[];
    readonly fPort?: number | undefined;
    readonly recvTime?: number | undefined;
    readonly variables?: Readonly<Record<string, string>> | undefined;
  };
  /** As in EncoderExample. */
  readonly extraInput: JsonObject;
  readonly expected: ExpectedTexts & { readonly data?: JsonObject | undefined };
}

/** An example that cannot run, because it is invalid or has no expected result. */
interface UnrunnableExample extends NamedExample {
  readonly result: 'failed' | 'skipped';
  readonly reason: string;
}

/** One example of a list. */
export type Example = EncoderExample | DecoderExample | UnrunnableExample;

const MAX_LISTED_ISSUES = 5;
const KNOWN_INPUT_FIELDS: ReadonlySet<string> = new Set([
  ...Object.keys(encoding.input.shape),
  ...Object.keys(decoding.input.shape),
]);

/**
 * Parses item `index` of a list of examples, in our own form or that of both public repositories. If `role` is
 * undefined, the input determines it. Never throws; an invalid item reports its error with its position in `file`.
 */
export function parseExample(item: unknown, index: number, file: string, role: CodecRole = inferRole(item)): Example {
  const parsed = (role === 'encoder' ? encoderItem : decoderItem).safeParse(item);
  if (!parsed.success)
    return { name: getName(item, index), result: 'failed', reason: `${file}: ${formatIssues(parsed.error, index)}` };
  const { input } = parsed.data;
  const expected = parsed.data.output ?? parsed.data.expected ?? {};
  const name = getName(parsed.data, index);
  if (Object.values(expected).every((field) => field === undefined))
    return {
      name,
      result: 'skipped',
      reason: `nothing to compare: set ${role === 'encoder' ? 'output.bytes' : 'output.data'} or output.errors`,
    };
  const extraInput = readExtraInput(item as ValidItem);
  const problem = findJsonProblem(extraInput);
  if (problem !== undefined) return { name, result: 'failed', reason: `${file}: [${index}].input ${problem}` };
  return { name, role, input, extraInput, expected } as Example;
}

/** An item with a valid structure. */
interface ValidItem {
  readonly input: JsonObject;
  readonly extraInput?: JsonValue;
}

/** Collects the unknown fields of `input`, and `extraInput` if it is next to `input`. */
function readExtraInput({ input, extraInput }: ValidItem): JsonObject {
  const extra = Object.entries(input).filter(([name]) => !KNOWN_INPUT_FIELDS.has(name));
  return Object.fromEntries(extraInput === undefined ? extra : [['extraInput', extraInput], ...extra]);
}

/** Guesses the role from the input: with bytes and without data it is that of a decoder. */
function inferRole(item: unknown): CodecRole {
  const { input } = (item ?? {}) as { input?: { data?: unknown; bytes?: unknown } | null };
  const hasBytes = input?.bytes !== undefined && input.bytes !== null;
  return hasBytes && input.data === undefined ? 'decoder' : 'encoder';
}

function getName(item: unknown, index: number): string {
  const { description, name } = (item ?? {}) as { description?: unknown; name?: unknown };
  return [description, name].find((text): text is string => typeof text === 'string' && text !== '') ?? `[${index}]`;
}

function formatIssues({ issues }: z.ZodError, index: number): string {
  return issues
    .slice(0, MAX_LISTED_ISSUES)
    .map(({ path, message }) => `[${index}]${path.map(formatPathStep).join('')}: ${message}`)
    .join('; ');
}

function formatPathStep(step: PropertyKey): string {
  return typeof step === 'number' ? `[${step}]` : `.${String(step)}`;
}
