import { z } from 'zod';
import { jsonProblem, type JsonValue } from '../../kernel/jsonValue';
import { parseJson, readTextFile } from './textFile';

const whole = (from: number, to: number) => {
  const error = `must be a whole number from ${from} to ${to}`;
  return z.int(error).min(from, error).max(to, error);
};
const texts = z.array(z.string('must be a text'), 'must be a list of texts');
/** A member that may be left out; null says the same, as it does where a preview is shown. */
const optional = <T extends z.ZodType>(member: T) => member.nullish().transform((value) => value ?? undefined);
const json = z.unknown().superRefine((value, context) => {
  const problem = value === undefined ? 'is missing; give what the encoder is given' : jsonProblem(value);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});

const input = z.object(
  { data: json, fPort: optional(whole(1, 223)), variables: optional(z.record(z.string(), z.string('must be a text'), 'must be an object of texts')) },
  'must be an object with data, and optional fPort and variables',
);
const output = z
  .object(
    { bytes: optional(z.array(whole(0, 255), 'must be a list of whole numbers from 0 to 255')), fPort: optional(whole(1, 223)), warnings: optional(texts), errors: optional(texts) },
    'must be an object with bytes or errors, and optional fPort and warnings',
  )
  .refine(({ bytes, errors }) => bytes !== undefined || (errors?.length ?? 0) > 0, 'must have bytes, or errors if the encoder is to fail');
const schema = z.object({ description: z.string('must be a text; name the example'), input, output }, 'must be an object with description, input and output');

/** What the encoder is to answer. What is absent is not compared. */
export type Expected = Partial<z.infer<typeof output>>;

/** One example of a list. */
export interface Example {
  /** What the table calls it. */
  readonly name: string;
  /** Why it cannot be run; undefined: it can. */
  readonly problem?: string;
  /** It is an example of a decoder. */
  readonly foreign?: boolean;
  readonly input: { readonly data: JsonValue; readonly fPort?: number | undefined; readonly variables?: Readonly<Record<string, string>> | undefined };
  readonly expected: Expected;
}

const MOST_PROBLEMS = 5;
const NOTHING = { input: { data: null }, expected: {} };

/** Reads the examples of a file. Throws UsageError when it is no list; an example that is wrong says so itself, with its place in the file. */
export function readExamples(file: string): Example[] {
  const list = parseJson(readTextFile(file), file);
  if (!Array.isArray(list)) return [{ ...NOTHING, name: '(the whole file)', problem: `${file}: must be a list of {"description", "input", "output"}` }];
  return list.map((item: unknown, at) => exampleOf(item, at, file));
}

function exampleOf(item: unknown, at: number, file: string): Example {
  const { description, input: given } = (item ?? {}) as { description?: unknown; input?: { data?: unknown; bytes?: unknown } | null };
  const name = typeof description === 'string' && description !== '' ? description : `[${at}]`;
  if ((given?.bytes ?? undefined) !== undefined && given?.data === undefined) return { ...NOTHING, name, foreign: true };
  const { data, error } = schema.safeParse(item);
  if (data) return { name, input: data.input as Example['input'], expected: data.output };
  const problems = error.issues.slice(0, MOST_PROBLEMS).map((issue) => `[${at}]${issue.path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`)).join('')}: ${issue.message}`);
  return { ...NOTHING, name, problem: `${file}: ${problems.join('; ')}` };
}
