import { randomBytes, randomUUID } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DomainError } from '../../kernel/errors';
import { parseSecretKey, KEY_BYTES } from '../../kernel/parseSecretKey';
import { chownToParent } from '../../kernel/chownToParent';
import type { Logger } from '../../kernel/logger';
import { syncFolder } from '../../kernel/syncFolder';

/** The source of the key for secrets. */
export interface SecretKeyOptions {
  /** 32 bytes in base64; empty: the key is in a file. */
  readonly key: string;
  /** A file with such a key; empty: `secrets.key` in the data folder, which is created when it is first needed. */
  readonly keyFile: string;
  readonly dataDir: string;
  readonly log: Logger;
}

/**
 * The key that encrypts the secrets of connections. It is read when first needed, again after its file was replaced,
 * and as long as reading fails.
 */
export class SecretKey {
  /** The loaded key, with the version of its file. */
  private loaded: { readonly key: Buffer; readonly fileVersion: string | undefined } | undefined;
  private lastErrorCode = '';
  private hasWarned = false;

  constructor(private readonly options: SecretKeyOptions) {}

  /**
   * Returns the key of the configuration or of the key file, which is read again after it was replaced. Throws
   * `secrets_unreadable` if there is no usable key.
   */
  get(): Buffer {
    const { key } = this.options;
    // A key of the configuration has no file and never changes.
    const fileVersion = key === '' ? findFileVersion(getKeyFile(this.options)) : '';
    const isDeleted = fileVersion === undefined;
    // The loaded key still decrypts what is stored, even if its file was deleted.
    if (this.loaded && (isDeleted || fileVersion === this.loaded.fileVersion)) return this.loaded.key;
    this.loaded = undefined; // if reading fails, the next call reads again
    this.loaded = { key: key === '' ? this.readFile() : decodeKey(key), fileVersion };
    return this.loaded.key;
  }

  /**
   * Returns the key of an unfinished rotation, with which some secrets may already be encrypted; undefined if there is
   * none.
   */
  findNext(): Buffer | undefined {
    const { key, log } = this.options;
    const file = getNextKeyFile(this.options);
    if (key !== '' || findFileVersion(file) === undefined) return undefined;
    const nextKey = readNextKey(file);
    if (nextKey && !this.hasWarned)
      log.warn(
        {
          key_file: file,
          message:
            'a rotation of the key for secrets is unfinished; stop the server and run "plantroom secrets rotate" again',
        },
        'secrets.key_change_unfinished',
      );
    this.hasWarned = true;
    return nextKey;
  }

  /**
   * Same as `get`, but creates the file in the data folder if there is none; it is synced to disk before this returns.
   * Never returns a key whose file was deleted.
   */
  getOrCreate(): Buffer {
    if (this.mustCreate) this.createFile(getKeyFile(this.options));
    else if (this.options.key === '' && findFileVersion(getKeyFile(this.options)) === undefined)
      throw keyUnusable('is missing; restore it');
    return this.get();
  }

  /** Whether getOrCreate would create a key. */
  get mustCreate(): boolean {
    const { key, keyFile } = this.options;
    return !this.loaded && key === '' && keyFile === '' && findFileVersion(getKeyFile(this.options)) === undefined;
  }

  /** Reads the key file. Logs a failure once for each error code. Throws `secrets_unreadable`. */
  private readFile(): Buffer {
    const file = getKeyFile(this.options);
    try {
      const text = readFileSync(file, 'latin1');
      this.lastErrorCode = '';
      return decodeKey(text);
    } catch (error) {
      if (error instanceof DomainError) throw error;
      const code = String((error as NodeJS.ErrnoException).code);
      if (code !== this.lastErrorCode) this.options.log.error({ err: error, key_file: file }, 'secrets.key_unreadable');
      this.lastErrorCode = code;
      throw keyUnusable(
        code === 'ENOENT' ? 'is missing; restore it' : 'is not readable; give the user of the server read access',
      );
    }
  }

  /** Creates the key file. Throws `secrets_unreadable` if that fails. */
  private createFile(file: string): void {
    try {
      createKeyFile(file);
    } catch (error) {
      this.options.log.error({ err: error, key_file: file }, 'secrets.key_creation_failed');
      throw keyUnusable('cannot be created in the data folder; give the user of the server write access');
    }
    this.options.log.info({ key_file: file }, 'secrets.key_created');
  }
}

/** Returns the path of the key file, whether or not it exists. */
export function getKeyFile({ keyFile, dataDir }: Pick<SecretKeyOptions, 'keyFile' | 'dataDir'>): string {
  return keyFile === '' ? join(dataDir, 'secrets.key') : keyFile;
}

/** Returns the path of the file with the new key during a rotation. */
export function getNextKeyFile(options: Pick<SecretKeyOptions, 'keyFile' | 'dataDir'>): string {
  return `${getKeyFile(options)}.next`;
}

/** Reads the key from a file of getNextKeyFile; undefined if it does not exist or is incomplete. */
export function readNextKey(file: string): Buffer | undefined {
  try {
    return parseSecretKey(readFileSync(file, 'latin1'));
  } catch {
    return undefined; // decryption reports the missing key
  }
}

/** Returns a text that changes when the file is replaced; undefined if the file does not exist. */
function findFileVersion(file: string): string | undefined {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found && `${found.ino} ${found.size} ${found.mtimeMs}`;
  } catch {
    return 'unreadable'; // the read that follows reports the reason
  }
}

/** Decodes a key in base64. Throws `secrets_unreadable` if it is not a key. */
function decodeKey(text: string): Buffer {
  const key = parseSecretKey(text);
  if (!key) throw keyUnusable(`is not ${KEY_BYTES} bytes in base64; restore the right one`);
  return key;
}

/**
 * Creates a file with a new random key, atomically: a temporary file is flushed and then linked. Never replaces a file:
 * throws EEXIST if it exists.
 */
export function createKeyFile(file: string): void {
  removeDrafts(file);
  const draft = `${file}.${randomUUID()}.new`;
  const descriptor = openSync(draft, 'wx', 0o600);
  try {
    writeSync(descriptor, `${randomBytes(KEY_BYTES).toString('base64')}\n`);
    fsyncSync(descriptor);
    chownToParent(draft);
    linkSync(draft, file);
  } finally {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  }
  syncFolder(dirname(file));
}

/**
 * Removes temporary files of createKeyFile that are left from a server that was killed while it created a key. No
 * secret was encrypted with them.
 */
function removeDrafts(file: string): void {
  const folder = dirname(file);
  const drafts = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.`) && name.endsWith('.new'));
  for (const draft of drafts) rmSync(join(folder, draft), { force: true });
}

/** Creates the error for a missing or invalid key. `problem`: the end of the sentence. */
function keyUnusable(problem: string): DomainError {
  return new DomainError(
    'conflict',
    'secrets_unreadable',
    `the server's key for secrets (secrets.key in its data folder, or PLANTROOM_SECRETS_KEY or PLANTROOM_SECRETS_KEY_FILE) ${problem}`,
  );
}
