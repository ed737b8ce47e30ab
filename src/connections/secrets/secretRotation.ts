import { linkSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { syncFolder } from '../../kernel/syncFolder';
import type { Connection, SealedSecrets } from '../connection';
import { ConnectionRepository } from '../connectionRepository';
import { boundTo } from './connectionSecrets';
import { findKeyIdIn, keyIdOf, openWith, sealWith } from './secretBox';
import { keyFileOf, nextFileOf, readNext, SecretKey, writeKey, type SecretKeyOptions } from './secretKey';

/** What changing the key needs. No server may use the database meanwhile: it would go on encrypting with the old one. */
export interface SecretRotation extends SecretKeyOptions {
  readonly database: Database;
  readonly log: Logger;
  /** The new key, which the caller puts in its place afterwards; undefined: one is made and put into the file of the key. */
  readonly newKey: Buffer | undefined;
  /** Called before the first thing that is changed. */
  readonly begin: () => Promise<void>;
}

/** What changing the key did. */
export interface RotatedSecrets {
  /** How many connections have secrets, which only the new key opens now. */
  readonly connections: number;
  /** The file that has the new key; undefined: the caller has to put it in its place. */
  readonly keyFile: string | undefined;
  /** The file that has the old key. */
  readonly oldKeyFile: string | undefined;
}

const PAGE = 200;
const MOST_NAMES = 5;

/**
 * Encrypts all secrets of all connections with a new key. Whenever it is killed, both keys are there until no secret needs the old one, and doing it
 * again goes on; afterwards the old one is kept beside. Throws `secrets_unreadable` (with nothing changed) where a secret opens with no
 * key that is there, `secrets_key_given` where the key is in no file and none was given, `no_secrets`.
 */
export async function rotateSecrets(rotation: SecretRotation): Promise<RotatedSecrets> {
  const { database, key, newKey } = rotation;
  if (key !== '' && !newKey) throw keyGiven();
  if (!(await new ConnectionRepository(database.db).isAnySealed())) throw noSecrets();
  const current = new SecretKey(rotation).get();
  await rotation.begin();
  if (newKey) return { connections: await resealAll(rotation, [current, newKey, ...unfinished(rotation)], newKey), keyFile: undefined, oldKeyFile: undefined };
  return await rotateFile(rotation, current);
}

/** With a key that is made here, and takes the place of the one in the file. */
async function rotateFile(rotation: SecretRotation, current: Buffer): Promise<RotatedSecrets> {
  const [file, nextFile] = [keyFileOf(rotation), nextFileOf(rotation)];
  const isAnew = readNext(nextFile) === undefined;
  if (isAnew) makeNext(nextFile);
  const next = readNext(nextFile);
  if (!next) throw notWritable(nextFile);
  try {
    const connections = await resealAll(rotation, [current, next], next);
    return { connections, keyFile: file, oldKeyFile: promote(file, nextFile) };
  } catch (error) {
    if (isAnew && error instanceof DomainError && error.reason === 'secrets_unreadable') rmSync(nextFile, { force: true }); // nothing was encrypted with it
    throw error;
  }
}

/** All in one transaction: either all of them, or none. */
async function resealAll({ database }: SecretRotation, keys: readonly Buffer[], next: Buffer): Promise<number> {
  return await database.transaction(async (db) => {
    const repository = new ConnectionRepository(db);
    const unopened: string[] = [];
    let count = 0;
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page = await repository.listSealed(after, PAGE);
      for (const connection of page) {
        const sealed = resealed(connection, keys, next);
        if (sealed) await repository.reseal(connection.organizationId, connection.id, sealed);
        else unopened.push(connection.name);
      }
      count += page.length;
      after = page.length < PAGE ? undefined : page.at(-1)?.id;
    }
    if (unopened.length > 0) throw lost(unopened);
    return count;
  });
}

/** The secrets of a connection encrypted with the new key; undefined: one of them cannot be opened. */
function resealed(connection: Connection, keys: readonly Buffer[], next: Buffer): SealedSecrets | undefined {
  if (connection.damaged?.includes('secrets')) return undefined;
  try {
    const pairs = Object.entries(connection.sealedSecrets).map(([name, text]) => {
      const place = boundTo(connection, name);
      return [name, findKeyIdIn(text) === keyIdOf(next) ? text : sealWith(next, place, openWith(keys, place, text))] as const;
    });
    return Object.fromEntries(pairs);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
}

/** The key of a change that did not come to its end. */
function unfinished(rotation: SecretRotation): readonly Buffer[] {
  const next = readNext(nextFileOf(rotation));
  return next ? [next] : [];
}

function makeNext(nextFile: string): void {
  try {
    rmSync(nextFile, { force: true });
    writeKey(nextFile);
  } catch (error) {
    throw notWritable(nextFile, error);
  }
}

/** Puts the new key into the place of the old one, which stays beside; the file of the key is there at every moment. */
function promote(file: string, nextFile: string): string {
  const [old, draft] = [`${file}.old`, `${file}.old.new`];
  rmSync(draft, { force: true });
  linkSync(file, draft);
  renameSync(draft, old);
  renameSync(nextFile, file);
  syncFolder(dirname(file));
  return old;
}

function keyGiven(): DomainError {
  const how = 'make a new one (openssl rand -base64 32 > new.key), run "plantroom secrets rotate --new-key-file new.key", then give its content as PLANTROOM_SECRETS_KEY before the server starts';
  return new DomainError('invalid_argument', 'secrets_key_given', `the key for secrets is given by the configuration (secrets.key), which this command cannot change; ${how}`);
}

function noSecrets(): DomainError {
  return new DomainError('conflict', 'no_secrets', 'no connection has secrets, so no key is in use; to begin with another one, remove secrets.key, or give another key, before a connection gets its first secret');
}

function lost(names: readonly string[]): DomainError {
  const shown = names.slice(0, MOST_NAMES).map((name) => JSON.stringify(name)).join(', ');
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : '';
  const message = `the key that is here does not open the secrets of the connections ${shown}${more}; nothing was changed. Put the key back that they were encrypted with, or give the secret fields of these connections again (or remove them by null), then rotate`;
  return new DomainError('conflict', 'secrets_unreadable', message);
}

function notWritable(nextFile: string, cause?: unknown): DomainError {
  const message = `the new key cannot be kept in ${nextFile} (${(cause as NodeJS.ErrnoException | undefined)?.code ?? 'what was written cannot be read'}); let the user of this program write there, or make a new key yourself and give it by --new-key-file`;
  return new DomainError('conflict', 'secrets_key_not_writable', message, { cause });
}
