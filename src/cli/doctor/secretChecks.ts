import { existsSync, readFileSync, statSync } from 'node:fs';
import type { Config } from '../../config';
import { findKeyIn, keyFileOf } from '../../connections';
import { fail, ok, warn, type Finding } from './check';

const CHECK = 'secrets key';
const PUT_BACK = 'put the file back that the secrets of connections were encrypted with, or give them again';

/** Whether the key of the secrets can be used, and is nobody else's to read. */
export function secretsKey({ secrets, data }: Config): Finding[] {
  if (secrets.key !== '') return [ok(CHECK, 'given by the configuration')];
  const file = keyFileOf({ keyFile: secrets.keyFile, dataDir: data.dir });
  if (!existsSync(file)) {
    return [secrets.keyFile === '' ? ok(CHECK, `${file} is not there yet; it is made when a connection gets its first secret`) : fail(CHECK, `${file} is not there`, `${PUT_BACK}, or make one: openssl rand -base64 32`)];
  }
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch (error) {
    return [fail(CHECK, `${file} cannot be read (${(error as Error).message})`, 'let the user of the server read it')];
  }
  if (!findKeyIn(text)) return [fail(CHECK, `${file} does not hold 32 bytes in base64`, PUT_BACK)];
  return [rights(file)];
}

function rights(file: string): Finding {
  const mode = statSync(file).mode & 0o777;
  const isOpen = process.platform !== 'win32' && (mode & 0o007) !== 0;
  return isOpen ? warn(CHECK, `every user of this machine may read it (mode ${mode.toString(8)})`, `chmod 600 ${file}`) : ok(CHECK, `${file}; keep a copy of it apart from those of the database`);
}
