import { randomBytes, randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DomainError } from '../../kernel/errors';
import { findKeyIn, KEY_BYTES } from '../../kernel/findKeyIn';
import { giveToOwner } from '../../kernel/giveToOwner';
import type { Logger } from '../../kernel/logger';
import { syncFolder } from '../../kernel/syncFolder';

/** Where the key of the secrets comes from. */
export interface SecretKeyOptions {
  /** 32 bytes in base64; empty: it is in a file. */
  readonly key: string;
  /** A file with such a key; empty: `secrets.key` in the data folder, which is made when it is first needed. */
  readonly keyFile: string;
  readonly dataDir: string;
  readonly log: Logger;
}

/** The key that the secrets of connections are encrypted with. Read when it is first needed, and again when its file was replaced or as long as that fails. */
export class SecretKey {
  /** With what told its file from others. */
  private known: { readonly key: Buffer; readonly mark: string | undefined } | undefined;
  private lastFailure = '';
  private warned = false;

  constructor(private readonly options: SecretKeyOptions) {}

  /** Throws `secrets_unreadable` if there is none, or none that can be used. */
  get(): Buffer {
    const { key } = this.options;
    const mark = key === '' ? markOf(keyFileOf(this.options)) : '';
    // What was read still opens what is stored, though its file is gone.
    if (this.known && (mark === undefined || mark === this.known.mark)) return this.known.key;
    this.known = undefined;
    this.known = { key: key === '' ? this.read() : decoded(key), mark };
    return this.known.key;
  }

  /** The key of a change that did not come to its end: some secrets may be encrypted with it already. Undefined: there is none. */
  findNext(): Buffer | undefined {
    const { key, log } = this.options;
    const file = nextFileOf(this.options);
    if (key !== '' || markOf(file) === undefined) return undefined;
    const next = readNext(file);
    if (next && !this.warned) log.warn({ key_file: file, message: 'a change of the key for secrets did not come to its end; stop the server and run "plantroom secrets rotate" once more' }, 'secrets.key_change_unfinished');
    this.warned = true;
    return next;
  }

  /** As get, but makes the file in the data folder if there is none yet; it is on disk then. Never answers a key that is nowhere on disk any more. */
  getOrMake(): Buffer {
    if (this.isToBeMade) this.make(keyFileOf(this.options));
    else if (this.options.key === '' && markOf(keyFileOf(this.options)) === undefined) throw unusable('is missing; put it back');
    return this.get();
  }

  /** Whether getOrMake would make one. */
  get isToBeMade(): boolean {
    const { key, keyFile } = this.options;
    return !this.known && key === '' && keyFile === '' && markOf(keyFileOf(this.options)) === undefined;
  }

  private read(): Buffer {
    const file = keyFileOf(this.options);
    try {
      const text = readFileSync(file, 'latin1');
      this.lastFailure = '';
      return decoded(text);
    } catch (error) {
      if (error instanceof DomainError) throw error;
      const code = String((error as NodeJS.ErrnoException).code);
      if (code !== this.lastFailure) this.options.log.error({ err: error, key_file: file }, 'secrets.key_unreadable');
      this.lastFailure = code;
      throw unusable(code === 'ENOENT' ? 'is missing; put it back' : 'cannot be read; let the user of the server read it');
    }
  }

  private make(file: string): void {
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

/** The file that holds the new key while the key is changed. */
export function nextFileOf(options: Pick<SecretKeyOptions, 'keyFile' | 'dataDir'>): string {
  return `${keyFileOf(options)}.next`;
}

/** The key in a file of nextFileOf; undefined: there is none, or none that was written whole. */
export function readNext(file: string): Buffer | undefined {
  try {
    return findKeyIn(readFileSync(file, 'latin1'));
  } catch {
    return undefined; // what is encrypted with it says that its key is missing
  }
}

/** Tells a file from one that takes its place; undefined: there is none. */
function markOf(file: string): string | undefined {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found && `${found.ino} ${found.size} ${found.mtimeMs}`;
  } catch {
    return 'out of reach'; // who reads it says why
  }
}

function decoded(text: string): Buffer {
  const key = findKeyIn(text);
  if (!key) throw unusable(`is not ${KEY_BYTES} bytes in base64; put the right one back`);
  return key;
}

/** Makes a key; whole or not at all: written beside, brought to disk, then linked, which replaces nothing. */
export function writeKey(file: string): void {
  removeDrafts(file);
  const draft = `${file}.${randomUUID()}.new`;
  const descriptor = openSync(draft, 'wx', 0o600);
  try {
    writeSync(descriptor, `${randomBytes(KEY_BYTES).toString('base64')}\n`);
    fsyncSync(descriptor);
    giveToOwner(draft);
    linkSync(draft, file);
  } finally {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  }
  syncFolder(dirname(file));
}

/** What a server left that was killed while it made a key; no secret was encrypted with one of these. */
function removeDrafts(file: string): void {
  const folder = dirname(file);
  const drafts = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.`) && name.endsWith('.new'));
  for (const draft of drafts) rmSync(join(folder, draft), { force: true });
}

function unusable(what: string): DomainError {
  return new DomainError('conflict', 'secrets_unreadable', `the server's key for secrets (secrets.key in its data folder, or as PLANTROOM_SECRETS_KEY or PLANTROOM_SECRETS_KEY_FILE say) ${what}`);
}
