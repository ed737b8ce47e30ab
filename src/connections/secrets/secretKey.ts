import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';

/** Where the key of the secrets comes from. */
export interface SecretKeyOptions {
  /** 32 bytes in base64; empty: it is in a file. */
  readonly key: string;
  /** A file with such a key; empty: `secrets.key` in the data folder, which is made when it is first needed. */
  readonly keyFile: string;
  readonly dataDir: string;
  readonly log: Logger;
}

/** Bytes of the key. */
export const KEY_BYTES = 32;

/** The key that the secrets of connections are encrypted with. Read when it is first needed, and again as long as that fails. */
export class SecretKey {
  private known: Buffer | undefined;

  constructor(private readonly options: SecretKeyOptions) {}

  /** Throws `secrets_unreadable` if there is none, or none that can be used. */
  get(): Buffer {
    this.known ??= this.options.key === '' ? readKey(keyFileOf(this.options), this.options.log) : decoded(this.options.key);
    return this.known;
  }

  /** As get, but makes the file in the data folder if there is none yet; it is on disk then. */
  getOrMake(): Buffer {
    const { key, keyFile } = this.options;
    if (!this.known && key === '' && keyFile === '') this.makeIfMissing(keyFileOf(this.options));
    return this.get();
  }

  private makeIfMissing(file: string): void {
    if (existsSync(file)) return;
    try {
      writeKey(file);
    } catch (error) {
      this.options.log.error({ err: error, key_file: file }, 'secrets.key_not_made');
      throw unusable('cannot be made in the data folder; let the user of the server write there');
    }
    this.options.log.info({ key_file: file }, 'secrets.key_made');
  }
}

/** The file that holds the key, whether it is there or not. */
export function keyFileOf({ keyFile, dataDir }: Pick<SecretKeyOptions, 'keyFile' | 'dataDir'>): string {
  return keyFile === '' ? join(dataDir, 'secrets.key') : keyFile;
}

/** The key in a text; undefined for anything but 32 bytes in base64. */
export function findKeyIn(text: string): Buffer | undefined {
  const trimmed = text.trim();
  const key = Buffer.from(trimmed, 'base64');
  return key.length === KEY_BYTES && key.toString('base64').replace(/=$/, '') === trimmed.replace(/=$/, '') ? key : undefined;
}

function readKey(file: string, log: Logger): Buffer {
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch (error) {
    log.error({ err: error, key_file: file }, 'secrets.key_unreadable');
    throw unusable((error as NodeJS.ErrnoException).code === 'ENOENT' ? 'is missing; put it back' : 'cannot be read; let the user of the server read it');
  }
  return decoded(text);
}

function decoded(text: string): Buffer {
  const key = findKeyIn(text);
  if (!key) throw unusable(`is not ${KEY_BYTES} bytes in base64; put the right one back`);
  return key;
}

/** Whole or not at all: written beside, brought to disk, then linked, which replaces nothing. */
function writeKey(file: string): void {
  const draft = `${file}.${process.pid}.new`;
  const descriptor = openSync(draft, 'wx', 0o600);
  try {
    writeSync(descriptor, `${randomBytes(KEY_BYTES).toString('base64')}\n`);
    fsyncSync(descriptor);
    linkSync(draft, file);
  } finally {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  }
  if (process.platform !== 'win32') syncFolder(dirname(file));
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function unusable(what: string): DomainError {
  return new DomainError('conflict', 'secrets_unreadable', `the server's key for secrets (secrets.key in its data folder, or as PLANTROOM_SECRETS_KEY or PLANTROOM_SECRETS_KEY_FILE say) ${what}`);
}
