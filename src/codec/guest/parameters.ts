import { findText } from './intrinsics';

/** The names of the first two parameters of a function. */
interface ParameterNames {
  readonly first: string;
  readonly second: string;
}

/**
 * Returns the names of the first two parameters of a function with parentheses, given its source text; empty strings
 * for parameters that are not there. A parameter that is not a simple name is returned as its source text, without
 * blanks.
 */
export function getParameterNames(source: string): ParameterNames {
  const first = readName(source, findText(source, '(') + 1);
  const hasSecond = source[first.end] === ',';
  return { first: first.name, second: hasSecond ? readName(source, first.end + 1).name : '' };
}

/**
 * Whether a function, given its source text, reads items of a parameter with this name, such as `payload[0]`, and no
 * member `bytes` of anything: then the parameter is a list of bytes.
 */
export function readsItemsOf(source: string, name: string): boolean {
  if (!isName(name) || hasMemberBytes(source)) return false;
  for (let found = findText(source, name); found >= 0; found = findText(source, name, found + 1)) {
    const previous = found === 0 ? ' ' : (source[found - 1] as string);
    const bracket = skipBlanks(source, found + name.length);
    const isItem = source[bracket] === '[' && !isQuote(source[skipBlanks(source, bracket + 1)]);
    if (isItem && !isNamePart(previous) && previous !== '.') return true;
  }
  return false;
}

/** Whether a source text has `.bytes` or the text `bytes`. */
const hasMemberBytes = (source: string): boolean =>
  findText(source, '.bytes') >= 0 || findText(source, "'bytes'") >= 0 || findText(source, '"bytes"') >= 0;

/** Reads a parameter name and the blanks and comments around it. `end`: the position after them. */
function readName(source: string, start: number): { readonly name: string; readonly end: number } {
  let name = '';
  let end = start;
  while (end < source.length && source[end] !== ',' && source[end] !== ')') {
    const char = source[end] as string;
    const commentEnd = findCommentEnd(source, end);
    if (commentEnd === end && char > ' ') name += char; // blanks and line ends are not above the blank
    end = commentEnd === end ? end + 1 : commentEnd;
  }
  return { name, end };
}

/** Returns the end of the comment that starts at a position; the position itself if there is none. */
function findCommentEnd(source: string, start: number): number {
  if (source[start] !== '/') return start;
  if (source[start + 1] === '*') {
    const end = findText(source, '*/', start + 2);
    return end < 0 ? source.length : end + 2;
  }
  let end = start;
  // A line end is below the blank, and is not written here, because the bundler would write a template literal.
  if (source[start + 1] === '/')
    while (end < source.length && ((source[end] as string) >= ' ' || source[end] === '\t')) end += 1;
  return end;
}

function skipBlanks(source: string, start: number): number {
  let end = start;
  while (end < source.length && (source[end] as string) <= ' ') end += 1;
  return end;
}

const isQuote = (char: string | undefined): boolean => char === "'" || char === '"';

/** Whether a character can be part of a name. Characters that are not ASCII count as such. */
const isNamePart = (char: string): boolean =>
  (char >= 'a' && char <= 'z') ||
  (char >= 'A' && char <= 'Z') ||
  (char >= '0' && char <= '9') ||
  char === '_' ||
  char === '$' ||
  char > '~';

/** Whether the text of a parameter is a simple name. */
function isName(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) if (!isNamePart(text[index] as string)) return false;
  return text !== '';
}
