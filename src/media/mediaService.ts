import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import { isId, newId } from '../kernel/ids';
import type { Logger } from '../kernel/logger';
import type { DeviceScope } from '../kernel/resourceScope';
import { Disk, type FileSystem } from './disk';
import type { UploadLimits, UploadPart } from './uploadReceiver';
import { mediaInUse, mediaNotFound, type Media, type Variant } from './media';
import { MediaFiles } from './mediaFiles';
import { MediaStore } from './mediaStore';
import { MediaGarbageCollector } from './mediaGarbageCollector';
import { MediaCounts } from './mediaCounts';
import { ImageProcessor } from './imageProcessor';

/** The dependencies of the service. */
export interface MediaServiceOptions {
  readonly database: Database;
  /** The parent folder of the files, for any database. */
  readonly dataDir: string;
  /** A permanent id of the database. Files of another database are never removed. */
  readonly installationId: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** The time limit for decoding an image, in milliseconds; absent: 30 s. */
  readonly decodeTimeoutMs?: number | undefined;
  /** Absent: DEFAULT_UPLOAD_LIMITS. */
  readonly limits?: UploadLimits | undefined;
  /** Absent: the file system of Node.js. */
  readonly fileSystem?: FileSystem | undefined;
}

/** The bytes of an image. */
export interface MediaContent {
  readonly media: Media;
  readonly variant: Variant;
  readonly sizeBytes: number;
  /** Reads the bytes from `start` up to but excluding `end`, in chunks of at most 64 KiB. */
  read(start: number, end: number): AsyncIterable<Uint8Array>;
}

/** Images: rows in the database, and bytes in files that are named by their content. */
export class MediaService {
  readonly counts = new MediaCounts();
  private readonly files: MediaFiles;
  private readonly store: MediaStore;
  private readonly garbageCollector: MediaGarbageCollector;
  private readonly imageProcessor: ImageProcessor;

  constructor(private readonly options: MediaServiceOptions) {
    const { database, dataDir, log } = options;
    this.files = new MediaFiles(dataDir, new Disk(options.fileSystem), options.limits);
    this.store = new MediaStore(database, this.files);
    this.garbageCollector = new MediaGarbageCollector({ store: this.store, files: this.files, log });
    this.imageProcessor = new ImageProcessor({ log, decodeTimeoutMs: options.decodeTimeoutMs });
  }

  /** Removes incomplete uploads of a crash, and checks who owns the files. Call it once, before the first upload. */
  async start(): Promise<void> {
    await this.files.uploads.clear();
    await this.garbageCollector.start(this.options.installationId);
  }

  /** Rejects uploads with `shutting_down`, and stops the garbage collector after its current step. */
  async stop(): Promise<void> {
    await this.imageProcessor.stop();
    await this.garbageCollector.stop();
  }

  /**
   * Stores an image and resolves when its bytes and its row are on disk. Throws `validation_failed` (empty, too large,
   * unsupported, corrupt), `media_queue_full`, `storage_full`, `deadline_exceeded`.
   */
  async upload(organizationId: string, parts: AsyncIterable<UploadPart>, signal?: AbortSignal): Promise<Media> {
    try {
      const media = await this.processUpload(organizationId, parts, signal);
      this.counts.uploads.add('stored');
      return media;
    } catch (error) {
      this.counts.recordFailure(error);
      throw error;
    }
  }

  /** The number of images that wait to be processed. */
  get queueLength(): number {
    return this.imageProcessor.queueLength;
  }

  /** Receives the bytes, checks the image, and stores it. The received file is removed if it was not stored. */
  private async processUpload(
    organizationId: string,
    parts: AsyncIterable<UploadPart>,
    signal?: AbortSignal,
  ): Promise<Media> {
    const received = await this.files.uploads.receive(organizationId, parts);
    try {
      const startedAt = performance.now();
      const { thumbnail, ...image } = await this.imageProcessor.process(received.file, organizationId, signal);
      this.counts.durations.add(performance.now() - startedAt);
      const { sha256, sizeBytes, filename } = received;
      const now = this.options.clock.now();
      const fields = {
        sha256,
        sizeBytes,
        filename: cleanFilename(filename),
        thumbnailBytes: thumbnail.length,
        createdAt: now,
        unusedSince: now,
        deviceCount: 0,
      };
      const media: Media = { id: newId(), organizationId, ...image, ...fields };
      return await this.store.add(media, received, thumbnail);
    } finally {
      await this.files.discardUpload(received);
    }
  }

  /**
   * Returns the first of these images that does not exist, or that is shown only on devices outside the scope of a
   * restricted key; undefined: all are visible.
   */
  findOutOfScope(
    organizationId: string,
    deviceScope: DeviceScope,
    ids: readonly string[],
  ): Promise<string | undefined> {
    return this.store.repository.findOutOfScope(organizationId, deviceScope, ids);
  }

  /** Counts only the devices inside the scope, if there is one. Throws `media_not_found`. */
  async get(organizationId: string, id: string, deviceScope?: DeviceScope): Promise<Media> {
    if (!isId(id)) throw mediaNotFound(id);
    return await this.store.repository.get(organizationId, id, deviceScope);
  }

  /** Returns the image with its bytes. Throws `media_not_found`. */
  async getContent(
    organizationId: string,
    id: string,
    variant: Variant,
    deviceScope?: DeviceScope,
  ): Promise<MediaContent> {
    const media = await this.get(organizationId, id, deviceScope);
    const sizeBytes = await this.files.getSize(media, variant);
    const expectedBytes = variant === 'original' ? media.sizeBytes : media.thumbnailBytes;
    if (sizeBytes !== expectedBytes) {
      // The image was removed after the row was read, or its file is missing or corrupt, for example after a restore.
      // Uploading it again repairs it.
      const fields = { media_id: id, sha256: media.sha256, variant, size_bytes: expectedBytes };
      if (sizeBytes === undefined) this.options.log.warn(fields, 'media.file_missing');
      else this.options.log.warn({ ...fields, found_bytes: sizeBytes }, 'media.file_corrupt');
      throw mediaNotFound(id);
    }
    return { media, variant, sizeBytes, read: (start, end) => this.files.read(media, variant, start, end) };
  }

  /**
   * The error for a restricted key mentions only the devices inside its scope. Throws `media_not_found`,
   * `media_in_use`.
   */
  async delete(organizationId: string, id: string, deviceScope?: DeviceScope): Promise<void> {
    const media = await this.get(organizationId, id, deviceScope);
    await this.store.remove(media, ({ deviceCount }) => {
      // The scope contains media.deviceCount devices. If it is 0, the image was added to another device in the
      // meantime.
      if (deviceCount > 0) throw mediaInUse(id, deviceScope ? Math.max(media.deviceCount, 1) : deviceCount);
      return true;
    });
  }

  /** Removes at most `max` images of an organization that is being deleted, used or not; returns how many. */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    return await this.store.deleteBatch(organizationId, max);
  }

  /** Removes the remaining files of an organization whose images are deleted, including those in the trash. */
  async removeFiles(organizationId: string): Promise<void> {
    await this.garbageCollector.removeFiles(organizationId);
  }

  /**
   * Removes images that no device has shown for 24 hours, and moves files without a row to the trash. One run at a
   * time; safe to repeat.
   */
  async collectGarbage(now: number): Promise<void> {
    await this.garbageCollector.collectGarbage(now);
  }
}

const MAX_NAME_LENGTH = 255;

/**
 * Returns the name of a file without its folders, and without invisible characters and those that change the text
 * direction.
 */
function cleanFilename(filename: string): string {
  const basename = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1);
  const visible = basename
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u2028-\u202E\u2066-\u2069]/gu, '')
    .trim();
  return Array.from(visible).slice(0, MAX_NAME_LENGTH).join('');
}
