/** A line of Markdown that starts a block of code, also with a language and attributes: ```js {.numberLines}. */
const OPENING_FENCE = /^[ \t]*(?:`{3,}|~{3,})[^`;()]*$/;
const CLOSING_FENCE = /^[ \t]*(?:`{3,}|~{3,})\s*$/;
const STARTS_WITH_FENCE = /^\s*(?:`{3}|~{3})/;
/** `export` before a declaration. A default function without a name is not one. */
const EXPORTED_DECLARATION =
  /^([ \t]*)export[ \t]+(?:default[ \t]+(?=(?:async[ \t]+)?function[ \t*]+[\w$]|class[ \t]+[\w$]))?(?=(?:async[ \t]+)?function\b|(?:const|let|var|class)\b)/gm;
/** A list of exported names. The functions are global anyway. */
const EXPORTED_NAMES = /^[ \t]*export[ \t]*\{[\s\w$,]*\}[ \t]*;?[ \t]*$/gm;
const EXPORTED_DEFAULT = /^([ \t]*)export[ \t]+default\b/gm;

/**
 * Removes `export` from a script that was copied from a module. Every line keeps its number. Call it only for a script
 * that cannot be compiled: the same text may also be part of a string or a comment.
 */
export function removeExports(script: string): string {
  return script
    .replace(EXPORTED_NAMES, (names) => names.replace(/[^\n]/g, ''))
    .replace(EXPORTED_DECLARATION, '$1')
    .replace(EXPORTED_DEFAULT, '$1exports.default =');
}

/**
 * Empties the lines of Markdown around a script that was copied from a document: its first and its last line with text.
 * For the engine, they would be template literals that are called as functions.
 */
export function removeFences(script: string): string {
  if (!STARTS_WITH_FENCE.test(script)) return script;
  const lines = script.split('\n');
  const first = lines.findIndex((line) => line.trim() !== '');
  const last = lines.findLastIndex((line) => line.trim() !== '');
  if (!OPENING_FENCE.test(lines[first] ?? '')) return script;
  lines[first] = '';
  if (CLOSING_FENCE.test(lines[last] ?? '')) lines[last] = '';
  return lines.join('\n');
}

/** Bounds the time of the search for a hint. */
const MAX_LINE_LENGTH = 500;

/** What a line of a script that cannot be compiled shows, and what to change. The first match is the hint. */
const HINTS: readonly (readonly [line: RegExp, hint: string])[] = [
  [
    /^\s*import\b(?!\s*\()/,
    'a script cannot import other files: remove `import` and paste what it imports into the script',
  ],
  [/^\s*export\b/, 'a script is not a module: remove `export` and define the function at the top level'],
  [/^\s*(?:```|~~~)/, 'this is a line of Markdown: paste only the lines between the fences'],
  [/[\u2018\u2019\u201C\u201D]/, 'replace the typographic quotes by straight ones (\' or ")'],
  [
    /^\s*(?:declare\s|interface\s+\w|type\s+\w+\s*=|enum\s+\w)|[\w)\]]\s*\??:\s*(?:number|string|boolean|any|unknown|void|object|never|Buffer|Uint8Array|Array<|Record<)|\)\s*:\s*\w[\w<>[\]., |]{0,99}\{|\bas\s+(?:const|any|unknown|number|string|[A-Z]\w*)\b/,
    'this looks like TypeScript: use JavaScript, without types such as `: number`',
  ],
];

/** Returns what to change in a line that cannot be compiled; undefined if nothing known is wrong with it. */
export function findSyntaxHint(script: string, lineNumber: number | undefined): string | undefined {
  if (lineNumber === undefined) return undefined;
  const line = (script.split('\n')[lineNumber - 1] ?? '').slice(0, MAX_LINE_LENGTH);
  return HINTS.find(([pattern]) => pattern.test(line))?.[1];
}
