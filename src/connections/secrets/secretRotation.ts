import { linkSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import { syncFolder } from '../../kernel/syncFolder';
import type { Connection, EncryptedSecrets } from '../connection';
import { ConnectionRepository } from '../connectionRepository';
import { getSecretContext } from './connectionSecrets';
import { findKeyIdIn, getKeyId, decryptSecret, encryptSecret } from './secretCipher';
import { createKeyFile, getKeyFile, getNextKeyFile, readNextKey, SecretKey, type SecretKeyOptions } from './secretKey';

/**
 * The inputs of a key rotation. No server may use the database concurrently, because it would continue to encrypt with
 * the old key.
 */
interface SecretRotation extends SecretKeyOptions {
  readonly database: Database;
  /**
   * The new key, which the caller must install afterwards; undefined: a new key is generated and written to the key
   * file.
   */
  readonly newKey: Buffer | undefined;
  /** Called before the first change. */
  readonly begin: () => Promise<void>;
}

/** The result of a key rotation. */
export interface RotatedSecrets {
  /** The number of connections with secrets, which now require the new key. */
  readonly connections: number;
  /** The file with the new key; undefined: the caller must install it. */
  readonly keyFile: string | undefined;
  /** The file with the old key. */
  readonly oldKeyFile: string | undefined;
}

const PAGE_SIZE = 200;
const MAX_LISTED_NAMES = 5;

/**
 * Encrypts all secrets of all connections with a new key. If the process is killed, both keys remain available, and
 * another run continues. When no secret needs the old key, it is kept in another file. Throws `secrets_unreadable`
 * (without changes) if no available key can decrypt a secret, `secrets_key_already_set` if the key is not in a file and
 * no new one was passed, `no_secrets`.
 */
export async function rotateSecrets(rotation: SecretRotation): Promise<RotatedSecrets> {
  const { database, key, newKey } = rotation;
  if (key !== '' && !newKey) throw keyAlreadySet();
  if (!(await new ConnectionRepository(database.db).hasSecrets())) throw noSecrets();
  const current = new SecretKey(rotation).get();
  await rotation.begin();
  if (newKey)
    return {
      connections: await encryptAll(rotation, [current, newKey, ...readUnfinishedKeys(rotation)], newKey),
      keyFile: undefined,
      oldKeyFile: undefined,
    };
  return await rotateFile(rotation, current);
}

/** Generates a new key, encrypts all secrets with the new key, and replaces the key file. */
async function rotateFile(rotation: SecretRotation, current: Buffer): Promise<RotatedSecrets> {
  const file = getKeyFile(rotation);
  const nextFile = getNextKeyFile(rotation);
  const isNewRotation = readNextKey(nextFile) === undefined;
  if (isNewRotation) createNextKeyFile(nextFile);
  const newKey = readNextKey(nextFile);
  if (!newKey) throw keyNotWritable(nextFile);
  try {
    const connections = await encryptAll(rotation, [current, newKey], newKey);
    return { connections, keyFile: file, oldKeyFile: replaceKeyFile(file, nextFile) };
  } catch (error) {
    if (isNewRotation && error instanceof DomainError && error.reason === 'secrets_unreadable')
      rmSync(nextFile, { force: true }); // nothing was encrypted with it
    throw error;
  }
}

/**
 * Decrypts all secrets with one of `keys` and encrypts them with the new key, in one transaction: all or none. Returns
 * the number of connections.
 */
async function encryptAll({ database }: SecretRotation, keys: readonly Buffer[], newKey: Buffer): Promise<number> {
  return await database.transaction(async (db) => {
    const repository = new ConnectionRepository(db);
    const unreadableNames: string[] = [];
    let count = 0;
    let afterId: string | undefined = ''; // less than every id
    while (afterId !== undefined) {
      const page = await repository.listWithSecrets(afterId, PAGE_SIZE);
      for (const connection of page) {
        const encrypted = encryptSecrets(connection, keys, newKey);
        if (encrypted) await repository.updateSecrets(connection.organizationId, connection.id, encrypted);
        else unreadableNames.push(connection.name);
      }
      count += page.length;
      afterId = page.length < PAGE_SIZE ? undefined : page.at(-1)?.id;
    }
    if (unreadableNames.length > 0) throw secretsUnreadable(unreadableNames);
    return count;
  });
}

/** Returns the secrets of a connection encrypted with the new key; undefined if one of them cannot be decrypted. */
function encryptSecrets(connection: Connection, keys: readonly Buffer[], newKey: Buffer): EncryptedSecrets | undefined {
  if (connection.corruptParts?.includes('secrets')) return undefined;
  try {
    const pairs = Object.entries(connection.encryptedSecrets).map(([name, text]) => {
      const hasNewKey = findKeyIdIn(text) === getKeyId(newKey); // an interrupted rotation encrypted it
      if (hasNewKey) return [name, text] as const;
      const context = getSecretContext(connection, name);
      return [name, encryptSecret(newKey, context, decryptSecret(keys, context, text))] as const;
    });
    return Object.fromEntries(pairs);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
}

/** Returns the key of an unfinished rotation, as a list; empty if there is none. */
function readUnfinishedKeys(rotation: SecretRotation): readonly Buffer[] {
  const next = readNextKey(getNextKeyFile(rotation));
  return next ? [next] : [];
}

/** Writes a new random key to the file. Throws `secrets_key_not_writable`. */
function createNextKeyFile(nextFile: string): void {
  try {
    rmSync(nextFile, { force: true }); // an interrupted rotation may have left an unreadable file
    createKeyFile(nextFile);
  } catch (error) {
    throw keyNotWritable(nextFile, error);
  }
}

/**
 * Replaces the old key with the new one and keeps the old one in another file. The key file is never missing meanwhile.
 */
function replaceKeyFile(file: string, nextFile: string): string {
  const oldKeyFile = `${file}.old`;
  const draft = `${file}.old.new`; // a second link to the old key, so that renaming it leaves the key file in place
  rmSync(draft, { force: true });
  linkSync(file, draft);
  renameSync(draft, oldKeyFile);
  renameSync(nextFile, file);
  syncFolder(dirname(file));
  return oldKeyFile;
}

/** Creates the error for a key that is set in the configuration. */
function keyAlreadySet(): DomainError {
  const how =
    'create a new one (openssl rand -base64 32 > new.key), run "plantroom secrets rotate --new-key-file new.key", then set PLANTROOM_SECRETS_KEY to its content before the server starts';
  return new DomainError(
    'invalid_argument',
    'secrets_key_already_set',
    `the key for secrets is set in the configuration (secrets.key), which this command cannot change; ${how}`,
  );
}

/** Creates the error for a rotation without stored secrets. */
function noSecrets(): DomainError {
  return new DomainError(
    'conflict',
    'no_secrets',
    'no connection has secrets, so no key is in use; to start with another key, delete secrets.key or configure another key before a connection gets its first secret',
  );
}

/** Creates the error for connections whose secrets no available key can decrypt. `names`: their names. */
function secretsUnreadable(names: readonly string[]): DomainError {
  const shown = names
    .slice(0, MAX_LISTED_NAMES)
    .map((name) => JSON.stringify(name))
    .join(', ');
  const more = names.length > MAX_LISTED_NAMES ? ` and ${names.length - MAX_LISTED_NAMES} more` : '';
  const message = `no available key can decrypt the secrets of the connections ${shown}${more}; nothing was changed. Restore the key that encrypted them, or set the secret fields of these connections again (null removes them), then rotate`;
  return new DomainError('conflict', 'secrets_unreadable', message);
}

/** Creates the error for a new key that cannot be stored. */
function keyNotWritable(nextFile: string, cause?: unknown): DomainError {
  const message = `the new key cannot be stored in ${nextFile} (${(cause as NodeJS.ErrnoException | undefined)?.code ?? 'the written file is unreadable'}); give the user of this program write access, or create a new key yourself and pass it with --new-key-file`;
  return new DomainError('conflict', 'secrets_key_not_writable', message, { cause });
}
