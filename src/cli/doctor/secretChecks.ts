import { existsSync, readFileSync, statSync } from 'node:fs';
import type { Config } from '../../config';
import { listConnectionsWithLostSecrets, getKeyFile, SecretKey } from '../../connections';
import { parseSecretKey } from '../../kernel/parseSecretKey';
import { silentLogger } from '../../kernel/logger';
import { fail, ok, warn, type Finding } from './check';
import { hasDatabase, readDatabase } from './readDatabase';

const CHECK = 'secrets key';
const RESTORE_KEY = 'put back the key file that encrypted the secrets of connections, or enter the secrets again';
const MAX_LISTED_NAMES = 5;
const UNFINISHED_ROTATION = warn(
  CHECK,
  'a key rotation was not completed: an old and a new key exist',
  'stop the server and run "plantroom secrets rotate" again',
);

/**
 * Checks that the secrets key is valid, decrypts the stored secrets, and is not readable by other users. Only reads.
 */
export async function checkSecretsKey(config: Config): Promise<Finding[]> {
  const { secrets, data } = config;
  if (secrets.key !== '')
    return [
      (await checkStoredSecrets(config, parseSecretKey(secrets.key), 'the key of the configuration')) ??
        ok(CHECK, 'set in the configuration'),
    ];
  const file = getKeyFile({ keyFile: secrets.keyFile, dataDir: data.dir });
  if (!existsSync(file)) return [await judgeMissingKey(config, file)];
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch (error) {
    return [
      fail(CHECK, `${file} cannot be read (${(error as Error).message})`, "give the server's user read permission"),
    ];
  }
  const key = parseSecretKey(text);
  if (!key) return [fail(CHECK, `${file} does not contain 32 bytes in base64`, RESTORE_KEY)];
  const nextKey = new SecretKey({ ...secrets, dataDir: data.dir, log: silentLogger }).findNext();
  return [
    (await checkStoredSecrets(config, key, file, nextKey)) ?? (nextKey ? UNFINISHED_ROTATION : checkKeyMode(file)),
  ];
}

/** A missing key is normal before the first secret is stored, unless its file is configured. */
async function judgeMissingKey(config: Config, file: string): Promise<Finding> {
  if (config.secrets.keyFile !== '')
    return fail(CHECK, `${file} does not exist`, `${RESTORE_KEY}, or create a key: openssl rand -base64 32`);
  return (
    (await checkStoredSecrets(config, undefined, `${file}, which does not exist,`)) ??
    ok(CHECK, `${file} does not exist yet; it is created when you store the first connection password`)
  );
}

/**
 * Fails if there are connections whose secrets cannot be decrypted, judged by the key id of each secret; undefined if
 * there are none. `keyName`: what `key` is called in the finding. `nextKey`: the new key of an unfinished rotation.
 */
async function checkStoredSecrets(
  config: Config,
  key: Buffer | undefined,
  keyName: string,
  nextKey?: Buffer,
): Promise<Finding | undefined> {
  if (!hasDatabase(config)) return undefined;
  let names: readonly string[];
  try {
    names = await readDatabase(
      config,
      async (database) => await listConnectionsWithLostSecrets(database, key, nextKey),
    );
  } catch {
    // The database cannot be opened, or its schema is too old for secrets: its own check reports that.
    return undefined;
  }
  if (names.length === 0) return undefined;
  const more = names.length > MAX_LISTED_NAMES ? ` and ${names.length - MAX_LISTED_NAMES} more` : '';
  return fail(
    CHECK,
    `${keyName} cannot decrypt the secrets of the connections ${names
      .slice(0, MAX_LISTED_NAMES)
      .map((name) => JSON.stringify(name))
      .join(', ')}${more}`,
    RESTORE_KEY,
  );
}

/** Warns if other users can read the key. The last two digits of a mode are for the group and for everyone. */
function checkKeyMode(file: string): Finding {
  const mode = statSync(file).mode & 0o777;
  const isReadableByOthers = process.platform !== 'win32' && (mode & 0o077) !== 0; // the group, and everyone
  const who = (mode & 0o007) === 0 ? 'other users of its group' : 'every user of this machine';
  return isReadableByOthers
    ? warn(CHECK, `${who} can read it (mode ${mode.toString(8)})`, `chmod 600 ${file}`)
    : ok(CHECK, `${file}; keep a copy of it separate from the database backups`);
}
