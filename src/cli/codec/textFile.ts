import { readFileSync, statSync } from 'node:fs';
import { UsageError } from '../exit';

const LARGEST_BYTES = 16 * 1024 * 1024;

/** Reads a file of text. Throws UsageError that names it. */
export function readTextFile(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > LARGEST_BYTES) throw new UsageError(`${file} has ${size} bytes; at most ${LARGEST_BYTES} are read`);
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}); give the path of a file`, { cause: error });
  }
}

/** Reads a JSON text; the mark that some editors put before it is no part of it. Throws UsageError that names `source`, and the line and column where it is no JSON. */
export function parseJson(given: string, source: string): unknown {
  const text = given.replace(/^\uFEFF/, '');
  try {
    return JSON.parse(text);
  } catch (error) {
    const before = text.slice(0, faultOf(text, error as SyntaxError)).split('\n');
    const what = (error as SyntaxError).message.replace(/(?:, [^]* is not valid JSON| in JSON at position [^]*| at position [^]*)$/, '');
    throw new UsageError(`${source} is not JSON at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}: ${what}`, { cause: error });
  }
}

/** The index of the first character that cannot stand where it stands. */
function faultOf(text: string, { message }: SyntaxError): number {
  const named = /at position (\d+)/.exec(message);
  if (named) return Number(named[1]);
  // An unexpected token is named without its place: it ends the shortest beginning that says the same.
  let good = 0;
  let bad = text.length;
  while (good < bad - 1) {
    const middle = (good + bad) >> 1;
    if (saysToken(text.slice(0, middle))) bad = middle;
    else good = middle;
  }
  return saysToken(text.slice(0, bad)) ? bad - 1 : text.length;
}

function saysToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return (error as SyntaxError).message.startsWith('Unexpected token');
  }
}
