import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config';
import { connectionsWithLostSecrets, keyFileOf, SecretKey } from '../../connections';
import { openDatabase, type Database } from '../../database';
import { findKeyIn } from '../../kernel/findKeyIn';
import { silentLogger } from '../../kernel/logger';
import { fail, ok, warn, type Finding } from './check';

const CHECK = 'secrets key';
const PUT_BACK = 'put the file back that the secrets of connections were encrypted with, or give them again';
const MOST_NAMES = 5;
const UNFINISHED = warn(CHECK, 'a change of the key did not come to its end: there are an old and a new one', 'stop the server and run "plantroom secrets rotate" once more');

/** Whether the key of the secrets can be used, opens what is stored, and is nobody else's to read. Only reads. */
export async function secretsKey(config: Config): Promise<Finding[]> {
  const { secrets, data } = config;
  if (secrets.key !== '') return [(await lost(config, findKeyIn(secrets.key), 'the key of the configuration')) ?? ok(CHECK, 'given by the configuration')];
  const file = keyFileOf({ keyFile: secrets.keyFile, dataDir: data.dir });
  if (!existsSync(file)) return [await missing(config, file)];
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch (error) {
    return [fail(CHECK, `${file} cannot be read (${(error as Error).message})`, 'let the user of the server read it')];
  }
  const key = findKeyIn(text);
  if (!key) return [fail(CHECK, `${file} does not hold 32 bytes in base64`, PUT_BACK)];
  const next = new SecretKey({ ...secrets, dataDir: data.dir, log: silentLogger }).findNext();
  return [(await lost(config, key, file, next)) ?? (next ? UNFINISHED : rights(file))];
}

async function missing(config: Config, file: string): Promise<Finding> {
  if (config.secrets.keyFile !== '') return fail(CHECK, `${file} is not there`, `${PUT_BACK}, or make one: openssl rand -base64 32`);
  return (await lost(config, undefined, `${file}, which is not there,`)) ?? ok(CHECK, `${file} is not there yet; it is made when a connection gets its first secret`);
}

/** Undefined: the key opens all that is stored, as far as its id tells. */
async function lost({ database: { url }, data }: Config, key: Buffer | undefined, what: string, next?: Buffer): Promise<Finding | undefined> {
  if (url === '' && !existsSync(join(data.dir, 'plantroom.db'))) return undefined;
  let opened: Database | undefined;
  let names: readonly string[];
  try {
    opened = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
    names = await connectionsWithLostSecrets(opened, key, next);
  } catch {
    return undefined; // the database cannot be opened, or its schema is older than secrets: the checks of the database say so
  } finally {
    await opened?.close();
  }
  if (names.length === 0) return undefined;
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : '';
  return fail(CHECK, `${what} does not open the secrets of the connections ${names.slice(0, MOST_NAMES).map((name) => JSON.stringify(name)).join(', ')}${more}`, PUT_BACK);
}

function rights(file: string): Finding {
  const mode = statSync(file).mode & 0o777;
  const isOpen = process.platform !== 'win32' && (mode & 0o077) !== 0;
  const who = (mode & 0o007) === 0 ? 'others of its group' : 'every user of this machine';
  return isOpen ? warn(CHECK, `${who} may read it (mode ${mode.toString(8)})`, `chmod 600 ${file}`) : ok(CHECK, `${file}; keep a copy of it apart from those of the database`);
}
