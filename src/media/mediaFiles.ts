import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { DomainError } from '../kernel/errors';
import { MOST_BYTES, type Variant } from './media';
import { refusal } from './pictureReader';

const READ_BYTES = 64 * 1024;
const FULL = new Set(['ENOSPC', 'EDQUOT']);
const CONTENT_NAME = /^[0-9a-f]{64}$/;
const SMALL = '.small';
/** How many contents are looked for in one statement. */
const AT_ONCE = 200;

/** Bytes that have arrived and are on disk, under a name of their own. */
export interface Received {
  readonly file: string;
  /** In lower-case hexadecimal. */
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** The content of an organization's picture. */
export interface ContentName {
  readonly organizationId: string;
  readonly sha256: string;
}

/**
 * The bytes of pictures as files, named by their content: `<data>/media/<organization>/<first two digits>/<sha256>`, the small picture beside
 * it. Nothing that a caller says becomes a part of a path. A file stands under its final name only as a whole, and on disk.
 */
export class MediaFiles {
  private readonly root: string;
  private readonly incoming: string;

  constructor(dataDir: string) {
    this.root = resolve(dataDir, 'media');
    this.incoming = join(this.root, 'incoming');
  }

  /** Takes the bytes as they arrive, and holds none of them. Throws `validation_failed` at the first byte too many, `storage_full`. */
  async receive(chunks: AsyncIterable<Uint8Array>): Promise<Received> {
    await makeFolder(this.incoming);
    const file = join(this.incoming, randomUUID());
    const hash = createHash('sha256');
    let sizeBytes = 0;
    await write(file, async (append) => {
      for await (const chunk of chunks) {
        sizeBytes += chunk.length;
        if (sizeBytes > MOST_BYTES) throw refusal(`has more than ${MOST_BYTES} bytes; give a smaller one`);
        hash.update(chunk);
        await append(chunk);
      }
    });
    return { file, sha256: hash.digest('hex'), sizeBytes };
  }

  /** Moves received bytes to their place, the small picture beside them, and resolves when all is on disk. Throws `storage_full`. */
  async keep(organizationId: string, { file, sha256 }: Received, thumbnail: Uint8Array): Promise<void> {
    const small = `${file}${SMALL}`;
    try {
      await write(small, async (append) => await append(thumbnail));
      const folder = this.folderOf({ organizationId, sha256 });
      await storing(makeFolder(folder));
      await storing(rename(small, this.fileOf({ organizationId, sha256 }, 'thumbnail')));
      await storing(rename(file, this.fileOf({ organizationId, sha256 }, 'original')));
      await storing(syncFolder(folder));
    } finally {
      await rm(small, { force: true });
    }
  }

  /** Removes received bytes that were not kept. */
  async discard({ file }: Received): Promise<void> {
    await rm(file, { force: true });
  }

  /** The size of a file in bytes; undefined: it is not there. */
  async size(name: ContentName, variant: Variant): Promise<number | undefined> {
    return (await found(stat(this.fileOf(name, variant))))?.size;
  }

  /** The bytes from `start` to before `end`, in pieces. */
  async *read(name: ContentName, variant: Variant, start: number, end: number): AsyncGenerator<Uint8Array> {
    const file = await open(this.fileOf(name, variant), 'r');
    try {
      for (let at = start; at < end; ) {
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(READ_BYTES, end - at)), 0, undefined, at);
        if (bytesRead === 0) throw new Error(`the file of the picture ${name.sha256} is shorter than it was`);
        yield buffer.subarray(0, bytesRead);
        at += bytesRead;
      }
    } finally {
      await file.close();
    }
  }

  /** Removes the files of a content. */
  async remove(name: ContentName): Promise<void> {
    for (const variant of ['original', 'thumbnail'] as const) await rm(this.fileOf(name, variant), { force: true });
  }

  /** Removes what uploads left behind that a crash ended; only before the first upload. */
  async clearIncoming(): Promise<void> {
    await rm(this.incoming, { recursive: true, force: true });
  }

  /** Whether a content was last written before `time` (Unix milliseconds), or is not there any more. */
  async isOlder(name: ContentName, time: number): Promise<boolean> {
    const facts = [await found(stat(this.fileOf(name, 'original'))), await found(stat(this.fileOf(name, 'thumbnail')))];
    return facts.every((one) => one === undefined || one.mtimeMs < time);
  }

  /** All contents that there are, some at a time. */
  async *contents(): AsyncGenerator<{ readonly organizationId: string; readonly hashes: readonly string[] }> {
    for (const organizationId of await names(this.root)) {
      if (organizationId === 'incoming') continue;
      for (const digits of await names(join(this.root, organizationId))) {
        const files = await names(join(this.root, organizationId, digits));
        const hashes = new Set(files.map((file) => (file.endsWith(SMALL) ? file.slice(0, -SMALL.length) : file)));
        const known = [...hashes].filter((hash) => CONTENT_NAME.test(hash));
        for (let at = 0; at < known.length; at += AT_ONCE) yield { organizationId, hashes: known.slice(at, at + AT_ONCE) };
      }
    }
  }

  private folderOf({ organizationId, sha256 }: ContentName): string {
    return join(this.root, organizationId, sha256.slice(0, 2));
  }

  private fileOf(name: ContentName, variant: Variant): string {
    return join(this.folderOf(name), variant === 'original' ? name.sha256 : `${name.sha256}${SMALL}`);
  }
}

/** Makes a file of what `fill` appends, and resolves when it is on disk; what could not be finished is removed. */
async function write(path: string, fill: (append: (bytes: Uint8Array) => Promise<void>) => Promise<void>): Promise<void> {
  const file = await storing(open(path, 'wx', 0o600));
  try {
    await fill(async (bytes) => await storing(file.appendFile(bytes)));
    await storing(file.sync());
    await file.close();
  } catch (error) {
    await file.close();
    await rm(path, { force: true });
    throw error;
  }
}

/** Makes a folder and those above it, for this user only; a new one is on disk when it resolves. */
async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let folder = path; folder !== dirname(first); folder = dirname(folder)) await syncFolder(dirname(folder));
}

async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return; // there a folder cannot be opened
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function names(folder: string): Promise<string[]> {
  return (await found(readdir(folder))) ?? [];
}

/** What there is; undefined for what is not, or is no folder. */
async function found<T>(look: Promise<T>): Promise<T | undefined> {
  return await look.catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return undefined;
    throw error;
  });
}

async function storing<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error: unknown) => {
    throw FULL.has(codeOf(error)) ? storageFull(error) : error;
  });
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? '';

function storageFull(cause: unknown): DomainError {
  return new DomainError('unavailable', 'storage_full', 'the disk of the data folder is full and the picture was not stored; free some space on the server, then try again', { cause, retryAfterMs: 60_000 });
}
