import { z } from 'zod';
import { jsonProblem, type JsonValue } from '../../kernel/jsonValue';
import { parseJson, readTextFile } from './textFile';

const byte = z.int().min(0).max(255);
const port = z.int().min(1).max(223);
const json = z.unknown().superRefine((value, context) => {
  const problem = value === undefined ? 'is missing; give what the encoder is given' : jsonProblem(value);
  if (problem) context.addIssue({ code: 'custom', message: problem });
});

const schema = z.object({
  description: z.string(),
  input: z.object({ data: json, fPort: port.optional(), variables: z.record(z.string(), z.string()).optional() }),
  output: z
    .object({ bytes: z.array(byte).optional(), fPort: port.optional(), warnings: z.array(z.string()).optional(), errors: z.array(z.string()).optional() })
    .refine(({ bytes, errors }) => bytes !== undefined || (errors?.length ?? 0) > 0, 'must have bytes, or errors if the encoder is to fail'),
});

/** What the encoder is to answer. What is absent is not compared. */
export type Expected = z.infer<typeof schema>['output'];

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
  const { description, input } = (item ?? {}) as { description?: unknown; input?: { data?: unknown; bytes?: unknown } };
  const name = typeof description === 'string' && description !== '' ? description : `[${at}]`;
  if (input?.bytes !== undefined && input.data === undefined) return { ...NOTHING, name, foreign: true };
  const { data, error } = schema.safeParse(item);
  if (data) return { name, input: data.input as Example['input'], expected: data.output };
  const problems = error.issues.slice(0, MOST_PROBLEMS).map((issue) => `[${at}]${issue.path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`)).join('')}: ${issue.message}`);
  return { ...NOTHING, name, problem: `${file}: ${problems.join('; ')}` };
}
