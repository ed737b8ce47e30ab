/** One step of a source path: the name of a field, or the index of an item (from 0). */
export type PathStep = string | number;

/** The maximum length of a source path in characters. Longer paths cannot be mapped. */
export const MAX_SOURCE_PATH_LENGTH = 512;

/** Describes the form of a source path for error messages. */
export const SOURCE_PATH_FORM =
  'a path such as data.relays[0]: field names joined by dots, [n] for an item of a list, and ["..."] (a JSON string) for a field name with characters other than A-Z, a-z, 0-9, _ and -';

const PLAIN_NAME = /^[A-Za-z0-9_-]+$/;
// A plain name, an index, or a quoted name. The expression is sticky and linear in the length of the text.
const STEP = /(\.?)([A-Za-z0-9_-]+)|\[(0|[1-9]\d{0,8})\]|\[("(?:[^"\\]|\\.)*")\]/y;

/** Returns the path of a field of `path`; an empty path is the whole payload. */
export function appendField(path: string, name: string): string {
  if (!PLAIN_NAME.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

/** Returns the path of an item of the list at `path`. */
export function appendIndex(path: string, index: number): string {
  return `${path}[${index}]`;
}

/** Formats a path in its canonical spelling. Different steps always give different texts. */
export function formatSourcePath(steps: readonly PathStep[]): string {
  return steps.reduce<string>(
    (path, step) => (typeof step === 'number' ? appendIndex(path, step) : appendField(path, step)),
    '',
  );
}

/**
 * Parses a path of any spelling; undefined if the text is not a path. A path starts with a field name, because a
 * payload is an object.
 */
export function parseSourcePath(text: string): PathStep[] | undefined {
  const steps: PathStep[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < text.length) {
    // STEP is sticky: it matches only at lastIndex, and sets lastIndex to the end of the match.
    const step = parseStep(STEP.exec(text), steps.length === 0);
    if (step === undefined) return undefined;
    steps.push(step);
  }
  return steps.length > 0 ? steps : undefined;
}

/** Returns a path in its canonical spelling, or the text unchanged if it is not a path. */
export function normalizeSourcePath(text: string): string {
  const steps = parseSourcePath(text);
  return steps ? formatSourcePath(steps) : text;
}

/** Returns the step of a match; undefined if there is none, or if it is not allowed at this place of a path. */
function parseStep(match: RegExpExecArray | null, isFirst: boolean): PathStep | undefined {
  if (!match) return undefined;
  const [, dot, plain, index, quoted] = match;
  if (plain !== undefined) {
    const hasDot = dot !== '';
    const isSeparated = hasDot !== isFirst; // a dot before every plain name except the first step
    return isSeparated ? plain : undefined;
  }
  if (quoted !== undefined) return parseQuotedName(quoted);
  return isFirst ? undefined : Number(index);
}

/** Parses a field name in the form of a JSON string; undefined if it is not valid JSON. */
function parseQuotedName(text: string): string | undefined {
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined; // not a JSON string: the caller reports it
  }
}
