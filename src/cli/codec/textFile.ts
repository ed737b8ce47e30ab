import { readFileSync, statSync } from 'node:fs';
import { UsageError } from '../exit';

const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** Reads a text file. Throws UsageError that names it. */
export function readTextFile(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > MAX_FILE_BYTES) throw new UsageError(`${file} has ${size} bytes: the limit is ${MAX_FILE_BYTES}`);
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}): use the path of a file`, {
      cause: error,
    });
  }
}

/**
 * Parses a JSON text; a leading byte order mark is ignored. Throws UsageError with `source`, line and column of the
 * error.
 */
export function parseJson(content: string, source: string): unknown {
  const text = content.replace(/^\uFEFF/, '');
  try {
    return JSON.parse(text);
  } catch (error) {
    const linesBefore = text.slice(0, findErrorPosition(text, error as SyntaxError)).split('\n');
    // V8 appends an excerpt or the position, which is shown as line and column instead.
    const problem = (error as SyntaxError).message.replace(
      /(?:, [^]* is not valid JSON| in JSON at position [^]*| at position [^]*)$/,
      '',
    );
    throw new UsageError(
      `${source} is not JSON at line ${linesBefore.length}, column ${(linesBefore.at(-1)?.length ?? 0) + 1}: ${problem}`,
      { cause: error },
    );
  }
}

/** Finds the index of the first invalid character. */
function findErrorPosition(text: string, { message }: SyntaxError): number {
  const match = /at position (\d+)/.exec(message);
  if (match) return Number(match[1]);
  // V8 reports an unexpected token without its position: it is the last character of the shortest prefix with the same
  // error.
  let validLength = 0;
  let invalidLength = text.length;
  while (validLength < invalidLength - 1) {
    const middle = (validLength + invalidLength) >> 1;
    if (hasUnexpectedToken(text.slice(0, middle))) invalidLength = middle;
    else validLength = middle;
  }
  return hasUnexpectedToken(text.slice(0, invalidLength)) ? invalidLength - 1 : text.length;
}

/** Whether the text already contains the invalid character. A text that ends before it has another error. */
function hasUnexpectedToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return (error as SyntaxError).message.startsWith('Unexpected token');
  }
}
