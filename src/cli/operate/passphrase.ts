import { readFileSync } from 'node:fs';
import { messageOf } from '../../kernel/thrown';
import { UsageError } from '../exit';

/** The first line of a file with a passphrase; undefined where no file is named. Throws a UsageError if it cannot be read or is empty. */
export function passphraseIn(file: string | undefined): string | undefined {
  if (file === undefined || file === '') return undefined;
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`the passphrase cannot be read (${messageOf(error)}); name a file that this user may read`, { cause: error });
  }
  const [line = ''] = text.split(/\r?\n/, 1);
  if (line === '') throw new UsageError(`the first line of ${file} is empty; write the passphrase there`);
  return line;
}
