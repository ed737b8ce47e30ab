import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DomainError } from '../kernel/errors';
import { storageFull, type Disk } from './disk';
import { MOST_BYTES } from './media';
import { refusal } from './pictureReader';

const MIB = 1024 * 1024;
const LEAST_RESERVE = 256 * MIB;
const MOST_RESERVE = 2048 * MIB;
const RETRY_MS = 2000;

/** What one upload, and those of one organization, may take. */
export interface UploadLimits {
  /** When an upload that is still arriving is ended, in milliseconds. */
  readonly uploadMs: number;
  /** How many arrive at once in an organization. */
  readonly atOnce: number;
}

/** The limits where nothing else is said. A picture of 10 MiB passes at 35 kB a second. */
export const DEFAULT_UPLOAD_LIMITS: UploadLimits = { uploadMs: 300_000, atOnce: 16 };

/** A part of an upload; the first one may name the file. */
export interface UploadPart {
  readonly filename?: string | undefined;
  readonly chunk: Uint8Array;
}

/** Bytes that have arrived and are on disk, under a name of their own. */
export interface Received {
  readonly file: string;
  /** In lower-case hexadecimal. */
  readonly sha256: string;
  readonly sizeBytes: number;
  /** As the caller gave it; empty: none. */
  readonly filename: string;
}

/** Uploads while they arrive, each in a file of its own. A part of the disk is never given to pictures: the database needs it to go on. */
export class Incoming {
  private readonly arriving = new Map<string, number>();

  constructor(
    private readonly folder: string,
    private readonly disk: Disk,
    private readonly limits: UploadLimits = DEFAULT_UPLOAD_LIMITS,
  ) {}

  /**
   * Takes the bytes as they arrive, and holds none of them. Throws `validation_failed` at the first byte too many, `media_busy`, `storage_full`,
   * `deadline_exceeded`.
   */
  async receive(organizationId: string, parts: AsyncIterable<UploadPart>): Promise<Received> {
    const before = this.arriving.get(organizationId) ?? 0;
    if (before >= this.limits.atOnce) throw busy(this.limits.atOnce);
    this.arriving.set(organizationId, before + 1);
    try {
      return await this.take(parts);
    } finally {
      const left = (this.arriving.get(organizationId) ?? 1) - 1;
      if (left > 0) this.arriving.set(organizationId, left);
      else this.arriving.delete(organizationId);
    }
  }

  /** Removes what uploads left behind that a crash ended; only before the first upload. */
  async clear(): Promise<void> {
    await this.disk.removeFolder(this.folder);
  }

  private async take(parts: AsyncIterable<UploadPart>): Promise<Received> {
    await this.disk.makeFolder(this.folder);
    await this.checkSpace();
    const file = join(this.folder, randomUUID());
    const hash = createHash('sha256');
    let [sizeBytes, filename]: [number, string | undefined] = [0, undefined];
    await this.disk.write(file, async (append) => {
      for await (const { filename: name, chunk } of within(parts, this.limits.uploadMs)) {
        filename ??= name ?? '';
        sizeBytes += chunk.length;
        if (sizeBytes > MOST_BYTES) throw refusal(`has more than ${MOST_BYTES} bytes; give a smaller one`);
        hash.update(chunk);
        await append(chunk);
      }
    });
    return { file, sha256: hash.digest('hex'), sizeBytes, filename: filename ?? '' };
  }

  private async checkSpace(): Promise<void> {
    const { free, total } = await this.disk.space(this.folder);
    if (total === 0) return; // some network drives do not tell
    const all = [...this.arriving.values()].reduce((sum, count) => sum + count, 0);
    const reserve = reserveOf(total);
    if (free - all * MOST_BYTES < reserve) throw storageFull(`less than ${Math.ceil(reserve / MIB)} MiB would be left of the disk`);
  }
}

/** How much of a disk pictures leave free: 5 %, at least 256 MiB, at most 2 GiB. */
export function reserveOf(totalBytes: number): number {
  return Math.min(MOST_RESERVE, Math.max(LEAST_RESERVE, totalBytes / 20));
}

/** The same items until the time is over; then it throws `deadline_exceeded`, also while nothing comes. */
async function* within<T>(items: AsyncIterable<T>, ms: number): AsyncGenerator<T> {
  const iterator = items[Symbol.asyncIterator]();
  let isOver = false;
  let end: (() => void) | undefined;
  const timer = setTimeout(() => {
    isOver = true;
    end?.();
  }, ms);
  // One promise an item: a race with a promise that lasts would keep something of each item until the end.
  const next = async (): Promise<IteratorResult<T>> =>
    await new Promise((resolve, reject) => {
      end = () => reject(tooSlow(ms));
      if (isOver) reject(tooSlow(ms));
      else iterator.next().then(resolve, reject);
    });
  try {
    for (let item = await next(); item.done !== true; item = await next()) yield item.value;
  } finally {
    clearTimeout(timer);
    void Promise.resolve(iterator.return?.()).catch(() => {}); // it may still wait for what never comes
  }
}

const busy = (atOnce: number): DomainError =>
  new DomainError('exhausted', 'media_busy', `${atOnce} pictures of the organization are arriving already; wait for one of them, then try again`, { retryAfterMs: RETRY_MS });

const tooSlow = (ms: number): DomainError => new DomainError('deadline_exceeded', 'deadline_exceeded', `the picture did not arrive within ${ms / 1000} s; send it over a faster connection, or give a smaller one`);
