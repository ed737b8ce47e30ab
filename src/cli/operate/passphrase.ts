import { readFileSync } from 'node:fs';
import { formatMessage } from '../../kernel/errorUtils';
import { UsageError } from '../exit';

/**
 * Reads a passphrase from the first line of a file; undefined if no file is named. Throws a UsageError if the file
 * cannot be read or its first line is empty.
 */
export function readPassphrase(file: string | undefined): string | undefined {
  if (file === undefined || file === '') return undefined;
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(
      `the passphrase file cannot be read (${formatMessage(error)}); name a file that this user can read`,
      {
        cause: error,
      },
    );
  }
  const [line = ''] = text.split(/\r?\n/, 1);
  if (line === '') throw new UsageError(`the first line of ${file} is empty; write the passphrase in the first line`);
  return line;
}
