/** A `{{path}}` of a template. */
export interface Placeholder {
  /** As it was written, less the blanks around it: `params.list[0]`. */
  readonly path: string;
  /** Its steps, the root first; a number is an index of a list. */
  readonly steps: readonly (string | number)[];
  /** Where it stands, for messages: `at character 12`, `in setpoint.value`. */
  readonly place: string;
}

/** What was read at one place: a placeholder, or why it is none; `end` is the character after it. */
export type PlaceholderReading = { readonly placeholder: Placeholder; readonly end: number } | { readonly problem: string; readonly end: number };

const OPEN = '{{';
const CLOSE = '}}';
const LONGEST = 256;
// Both are sticky and match in one pass: the step after `.` or `[` decides the way.
const ROOT = /[A-Za-z_]\w*/y;
const STEP = /\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]/y;

/** Reads the placeholder that begins with the `{{` at `start`. `roots` are the names that a path may begin with. */
export function readPlaceholder(text: string, start: number, roots: readonly string[], place: string): PlaceholderReading {
  const close = text.slice(start, start + LONGEST).indexOf(CLOSE);
  if (close === -1) return { problem: `"{{" ${place} has no "}}" within ${LONGEST} characters; write {{path}}, for example {{${roots[0]}.x}}`, end: start + OPEN.length };
  const path = text.slice(start + OPEN.length, start + close).trim();
  const end = start + close + CLOSE.length;
  const steps = stepsOf(path);
  if (!steps) return { problem: `{{${path}}} ${place} is not a path; write names with "." and indexes in "[]", for example {{${roots[0]}.list[0]}}`, end };
  if (!roots.includes(String(steps[0]))) return { problem: `{{${path}}} ${place} begins with an unknown name; begin with ${roots.join(', ')}`, end };
  return { placeholder: { path, steps, place }, end };
}

/** Cuts a text at its placeholders; problems are added to `problems`. */
export function splitText(text: string, roots: readonly string[], placeAt: (index: number) => string, problems: string[]): readonly (string | Placeholder)[] {
  const parts: (string | Placeholder)[] = [];
  let from = 0;
  for (let open = text.indexOf(OPEN); open !== -1; open = text.indexOf(OPEN, from)) {
    if (open > from) parts.push(text.slice(from, open));
    const reading = readPlaceholder(text, open, roots, placeAt(open));
    if ('problem' in reading) problems.push(reading.problem);
    else parts.push(reading.placeholder);
    from = reading.end;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

function stepsOf(path: string): readonly (string | number)[] | undefined {
  ROOT.lastIndex = 0;
  const root = ROOT.exec(path);
  if (!root) return undefined;
  const steps: (string | number)[] = [root[0]];
  STEP.lastIndex = ROOT.lastIndex;
  while (STEP.lastIndex < path.length) {
    const step = STEP.exec(path);
    if (!step) return undefined;
    steps.push(step[1] ?? Number(step[2]));
  }
  return steps;
}
