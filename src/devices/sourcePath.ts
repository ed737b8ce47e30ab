/** One step of a source path: the name of a member, or the index of an item (from 0). */
export type PathStep = string | number;

/** The greatest length of a source path in characters; longer ones cannot be mapped. */
export const LONGEST_SOURCE_PATH = 512;

/** What a source path looks like, for messages to people. */
export const SOURCE_PATH_FORM = 'a path such as data.relays[0]: member names joined by dots, [n] for the item of a list, and ["..."] (a JSON string) for a member name with other characters than A-Z, a-z, 0-9, _ and -';

const PLAIN_NAME = /^[A-Za-z0-9_-]+$/;
// A plain member, an index, or a quoted member; sticky, and linear in the length of the text.
const STEP = /(\.?)([A-Za-z0-9_-]+)|\[(0|[1-9]\d{0,8})\]|\[("(?:[^"\\]|\\.)*")\]/y;

/** The path of a member of what `path` names; an empty path stands for the whole payload. */
export function memberPath(path: string, name: string): string {
  if (!PLAIN_NAME.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

/** The path of an item of the list that `path` names. */
export function itemPath(path: string, index: number): string {
  return `${path}[${index}]`;
}

/** The one spelling of a path; different steps always give different texts. */
export function formatSourcePath(steps: readonly PathStep[]): string {
  return steps.reduce<string>((path, step) => (typeof step === 'number' ? itemPath(path, step) : memberPath(path, step)), '');
}

/** The steps of a path, whatever its spelling; undefined for a text that is none. A path starts with a member: a payload is an object. */
export function parseSourcePath(text: string): PathStep[] | undefined {
  const steps: PathStep[] = [];
  for (STEP.lastIndex = 0; STEP.lastIndex < text.length; ) {
    const step = stepOf(STEP.exec(text), steps.length === 0);
    if (step === undefined) return undefined;
    steps.push(step);
  }
  return steps.length > 0 ? steps : undefined;
}

/** A path in its one spelling; a text that is no path as it is. */
export function canonicalSourcePath(text: string): string {
  const steps = parseSourcePath(text);
  return steps ? formatSourcePath(steps) : text;
}

function stepOf(match: RegExpExecArray | null, isFirst: boolean): PathStep | undefined {
  if (!match) return undefined;
  const [, dot, plain, index, quoted] = match;
  if (plain !== undefined) return (dot === '') === isFirst ? plain : undefined;
  if (quoted !== undefined) return unquoted(quoted);
  return isFirst ? undefined : Number(index);
}

function unquoted(text: string): string | undefined {
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined; // not a JSON string: the caller says so
  }
}
