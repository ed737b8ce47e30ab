/** A `{{path}}` placeholder of a template. */
export interface Placeholder {
  /** The path as written, trimmed: `params.list[0]`. */
  readonly path: string;
  /** The steps of the path, the root first; a number is a list index. */
  readonly steps: readonly (string | number)[];
  /** Position for messages: `at character 12`, `in setpoint.value`. */
  readonly location: string;
}

/**
 * The result at one position: a placeholder, or what is wrong with it. `end` is the index after it; without a closing
 * `}}` it is the index after `{{`.
 */
type PlaceholderResult =
  { readonly placeholder: Placeholder; readonly end: number } | { readonly problem: string; readonly end: number };

const OPEN = '{{';
const CLOSE = '}}';
const MAX_PLACEHOLDER_LENGTH = 256;
// A path is its first name, followed by names (`.level`) and list indexes (`[0]`). Both patterns are sticky, so that a
// path is matched in one pass.
const ROOT_NAME = /[A-Za-z_]\w*/y;
const NEXT_STEP = /\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]/y;

/**
 * Reads the placeholder that starts at `start` with `{{`. `roots` are the allowed first names of a path; `location` is
 * its position for messages.
 */
export function readPlaceholder(
  text: string,
  start: number,
  roots: readonly string[],
  location: string,
): PlaceholderResult {
  const closeOffset = text.slice(start, start + MAX_PLACEHOLDER_LENGTH).indexOf(CLOSE);
  if (closeOffset === -1) {
    return {
      problem: `"{{" ${location} has no "}}" within ${MAX_PLACEHOLDER_LENGTH} characters: write {{path}}, for example {{${roots[0]}.x}}`,
      end: start + OPEN.length,
    };
  }
  const path = text.slice(start + OPEN.length, start + closeOffset).trim();
  const end = start + closeOffset + CLOSE.length;
  const steps = parsePath(path);
  if (!steps) {
    return {
      problem: `{{${path}}} ${location} is not a path: write names with "." and indexes in "[]", for example {{${roots[0]}.list[0]}}`,
      end,
    };
  }
  if (!roots.includes(String(steps[0])))
    return { problem: `{{${path}}} ${location} starts with an unknown name: start with ${roots.join(', ')}`, end };
  return { placeholder: { path, steps, location }, end };
}

/**
 * Splits a text into fixed texts and placeholders, in order. `roots`: the allowed first names of a path;
 * `formatLocation`: formats the position of an index for messages. Problems are added to `problems`.
 */
export function splitAtPlaceholders(
  text: string,
  roots: readonly string[],
  formatLocation: (index: number) => string,
  problems: string[],
): readonly (string | Placeholder)[] {
  const parts: (string | Placeholder)[] = [];
  let position = 0;
  for (let open = text.indexOf(OPEN); open !== -1; open = text.indexOf(OPEN, position)) {
    if (open > position) parts.push(text.slice(position, open));
    const result = readPlaceholder(text, open, roots, formatLocation(open));
    if ('problem' in result) problems.push(result.problem);
    else parts.push(result.placeholder);
    position = result.end;
  }
  if (position < text.length) parts.push(text.slice(position));
  return parts;
}

/** Parses `params.list[0]` into its steps `params`, `list`, 0; undefined if the text is not a path. */
function parsePath(path: string): readonly (string | number)[] | undefined {
  ROOT_NAME.lastIndex = 0;
  const root = ROOT_NAME.exec(path);
  if (!root) return undefined;
  const steps: (string | number)[] = [root[0]];
  NEXT_STEP.lastIndex = ROOT_NAME.lastIndex; // each exec starts where the previous match ended
  while (NEXT_STEP.lastIndex < path.length) {
    const step = NEXT_STEP.exec(path);
    if (!step) return undefined;
    const [, name, index] = step;
    steps.push(name ?? Number(index));
  }
  return steps;
}
