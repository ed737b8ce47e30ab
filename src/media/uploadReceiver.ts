import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DomainError } from '../kernel/errors';
import { storageFull, type Disk } from './disk';
import { MAX_IMAGE_BYTES } from './media';
import { invalidImage } from './imageProcessor';

const MIB = 1024 * 1024;
const MIN_RESERVE_BYTES = 256 * MIB;
const MAX_RESERVE_BYTES = 2048 * MIB;
const RETRY_AFTER_MS = 2000;

/** The limits of one upload, and of the uploads of one organization. */
export interface UploadLimits {
  /** The time limit of an incoming upload, in milliseconds. */
  readonly uploadTimeoutMs: number;
  /** The maximum number of concurrent uploads of an organization. */
  readonly maxConcurrentUploads: number;
}

/** The default limits. An image of 10 MiB needs at least 35 kB per second. */
const DEFAULT_UPLOAD_LIMITS: UploadLimits = { uploadTimeoutMs: 300_000, maxConcurrentUploads: 16 };

/** A part of an upload. The first one may contain the file name. */
export interface UploadPart {
  readonly filename?: string | undefined;
  readonly chunk: Uint8Array;
}

/** Received bytes that are on disk under a temporary name. */
export interface ReceivedUpload {
  readonly file: string;
  /** In lower-case hexadecimal. */
  readonly sha256: string;
  readonly sizeBytes: number;
  /** As the caller sent it; empty: not sent. */
  readonly filename: string;
}

/**
 * Incoming uploads, each in its own file. Images never use the last part of the disk, because the database needs it.
 */
export class UploadReceiver {
  private readonly activeUploads = new Map<string, number>();

  constructor(
    private readonly folder: string,
    private readonly disk: Disk,
    private readonly limits: UploadLimits = DEFAULT_UPLOAD_LIMITS,
  ) {}

  /**
   * Writes the bytes to disk as they arrive, without buffering. Throws `validation_failed` at the first byte over the
   * limit, `media_queue_full`, `storage_full`, `deadline_exceeded`.
   */
  async receive(organizationId: string, parts: AsyncIterable<UploadPart>): Promise<ReceivedUpload> {
    const active = this.activeUploads.get(organizationId) ?? 0;
    if (active >= this.limits.maxConcurrentUploads) throw mediaQueueFull(this.limits.maxConcurrentUploads);
    this.activeUploads.set(organizationId, active + 1);
    try {
      return await this.writeToDisk(parts);
    } finally {
      const remaining = (this.activeUploads.get(organizationId) ?? 1) - 1;
      if (remaining > 0) this.activeUploads.set(organizationId, remaining);
      else this.activeUploads.delete(organizationId);
    }
  }

  /** Removes incomplete uploads of a crash. Only before the first upload. */
  async clear(): Promise<void> {
    await this.disk.removeFolder(this.folder);
  }

  /** Writes the parts to a new file. Throws if the image is too large, the disk is full, or the time is over. */
  private async writeToDisk(parts: AsyncIterable<UploadPart>): Promise<ReceivedUpload> {
    await this.disk.createFolder(this.folder);
    await this.checkSpace();
    const file = join(this.folder, randomUUID());
    const hash = createHash('sha256');
    let sizeBytes = 0;
    let filename: string | undefined; // from the first part
    await this.disk.write(file, async (append) => {
      for await (const { filename: name, chunk } of limitDuration(parts, this.limits.uploadTimeoutMs)) {
        filename ??= name ?? '';
        sizeBytes += chunk.length;
        if (sizeBytes > MAX_IMAGE_BYTES)
          throw invalidImage(`has more than ${MAX_IMAGE_BYTES} bytes: upload a smaller image`);
        hash.update(chunk);
        await append(chunk);
      }
    });
    return { file, sha256: hash.digest('hex'), sizeBytes, filename: filename ?? '' };
  }

  /**
   * Throws `storage_full` unless the disk has space for all running uploads, each of the maximum size, and the reserve.
   */
  private async checkSpace(): Promise<void> {
    const { free, total } = await this.disk.getSpace(this.folder);
    if (total === 0) return; // some network drives do not report it
    const concurrentUploads = [...this.activeUploads.values()].reduce((sum, count) => sum + count, 0);
    const reserve = getReserveBytes(total);
    if (free - concurrentUploads * MAX_IMAGE_BYTES < reserve)
      throw storageFull(`less than ${Math.ceil(reserve / MIB)} MiB of the disk would remain free`);
  }
}

/** Returns the space that images leave free on a disk: 5 %, at least 256 MiB, at most 2 GiB. */
export function getReserveBytes(totalBytes: number): number {
  return Math.min(MAX_RESERVE_BYTES, Math.max(MIN_RESERVE_BYTES, totalBytes / 20));
}

/** Yields the same items until the time is over; then throws `deadline_exceeded`, even while no item arrives. */
async function* limitDuration<T>(items: AsyncIterable<T>, timeoutMs: number): AsyncGenerator<T> {
  const iterator = items[Symbol.asyncIterator]();
  let hasTimedOut = false;
  let onTimeout: (() => void) | undefined; // rejects the promise of the current item
  const timer = setTimeout(() => {
    hasTimedOut = true;
    onTimeout?.();
  }, timeoutMs);
  // One promise per item: a race with a long-lived promise would retain something of each item until the end.
  const next = async (): Promise<IteratorResult<T>> =>
    await new Promise((resolve, reject) => {
      onTimeout = () => reject(deadlineExceeded(timeoutMs));
      if (hasTimedOut) reject(deadlineExceeded(timeoutMs));
      else iterator.next().then(resolve, reject);
    });
  try {
    for (let item = await next(); item.done !== true; item = await next()) yield item.value;
  } finally {
    clearTimeout(timer);
    void Promise.resolve(iterator.return?.()).catch(() => {}); // it may still wait for an item that never arrives
  }
}

const mediaQueueFull = (maxConcurrentUploads: number): DomainError =>
  new DomainError(
    'exhausted',
    'media_queue_full',
    `${maxConcurrentUploads} images of the organization are already being uploaded: wait for one of them, then try again`,
    { retryAfterMs: RETRY_AFTER_MS },
  );

const deadlineExceeded = (timeoutMs: number): DomainError =>
  new DomainError(
    'deadline_exceeded',
    'deadline_exceeded',
    `the image did not arrive within ${timeoutMs / 1000} s: use a faster connection, or upload a smaller image`,
  );
