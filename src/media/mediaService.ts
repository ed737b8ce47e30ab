import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import { isId, newId } from '../kernel/ids';
import type { Logger } from '../kernel/logger';
import type { DeviceReach } from '../kernel/reach';
import { Disk, type FileSystem } from './disk';
import type { UploadLimits, UploadPart } from './incoming';
import { mediaInUse, mediaNotFound, type Media, type Variant } from './media';
import { MediaFiles } from './mediaFiles';
import { MediaStore } from './mediaStore';
import { MediaSweep } from './mediaSweep';
import { PictureCounts } from './pictureCounts';
import { PictureReader } from './pictureReader';

/** What the service stands on. */
export interface MediaServiceOptions {
  readonly database: Database;
  /** The files lie below it, whichever database there is. */
  readonly dataDir: string;
  /** Lasting, and different for each database: files of another one are never removed. */
  readonly installationId: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** When a picture that is still being decoded is given up, in milliseconds; absent: 30 s. */
  readonly decodeMs?: number | undefined;
  /** Absent: DEFAULT_UPLOAD_LIMITS. */
  readonly limits?: UploadLimits | undefined;
  /** Absent: that of node. */
  readonly fileSystem?: FileSystem | undefined;
}

/** The bytes of a picture. */
export interface MediaContent {
  readonly media: Media;
  readonly variant: Variant;
  readonly sizeBytes: number;
  /** The bytes from `start` to before `end`, in pieces of at most 64 KiB. */
  read(start: number, end: number): AsyncIterable<Uint8Array>;
}

/** Pictures: rows in the database, bytes in files that are named by their content. */
export class MediaService {
  readonly counts = new PictureCounts();
  private readonly files: MediaFiles;
  private readonly store: MediaStore;
  private readonly sweeping: MediaSweep;
  private readonly reader: PictureReader;

  constructor(private readonly options: MediaServiceOptions) {
    const { database, dataDir, log } = options;
    this.files = new MediaFiles(dataDir, new Disk(options.fileSystem), options.limits);
    this.store = new MediaStore(database, this.files);
    this.sweeping = new MediaSweep({ store: this.store, files: this.files, log });
    this.reader = new PictureReader({ log, timeMs: options.decodeMs });
  }

  /** Removes half uploads that a crash left behind, and finds out whose the files are. To be called once, before the first upload. */
  async start(): Promise<void> {
    await this.files.incoming.clear();
    await this.sweeping.start(this.options.installationId);
  }

  /** Waits for nothing but the sweep's next step; uploads are refused with `shutting_down`. */
  async stop(): Promise<void> {
    await this.reader.stop();
    await this.sweeping.stop();
  }

  /**
   * Stores a picture; when it resolves bytes and row are on disk. Throws `validation_failed` (empty, too large, no picture that is taken, damaged),
   * `media_busy`, `storage_full`, `deadline_exceeded`.
   */
  async upload(organizationId: string, parts: AsyncIterable<UploadPart>, signal?: AbortSignal): Promise<Media> {
    try {
      const media = await this.take(organizationId, parts, signal);
      this.counts.uploads.add('stored');
      return media;
    } catch (error) {
      this.counts.fail(error);
      throw error;
    }
  }

  /** How many pictures wait to be looked at. */
  get waiting(): number {
    return this.reader.waitingPictures;
  }

  private async take(organizationId: string, parts: AsyncIterable<UploadPart>, signal?: AbortSignal): Promise<Media> {
    const received = await this.files.incoming.receive(organizationId, parts);
    try {
      const since = performance.now();
      const { thumbnail, ...picture } = await this.reader.read(received.file, organizationId, signal);
      this.counts.durations.add(performance.now() - since);
      const { sha256, sizeBytes, filename } = received;
      const now = this.options.clock.now();
      const fields = { sha256, sizeBytes, filename: plainName(filename), thumbnailBytes: thumbnail.length, createdAt: now, unusedSince: now, deviceCount: 0 };
      const media: Media = { id: newId(), organizationId, ...picture, ...fields };
      return await this.store.add(media, received, thumbnail);
    } finally {
      await this.files.discard(received);
    }
  }

  /** The first of these pictures that is not there, or lies outside the reach of a limited key: devices show it, and none of them is inside; undefined: none. */
  outside(organizationId: string, reach: DeviceReach, ids: readonly string[]): Promise<string | undefined> {
    return this.store.rows.outside(organizationId, reach, ids);
  }

  /** With a reach only the devices inside are counted. Throws `media_not_found`. */
  async get(organizationId: string, id: string, reach?: DeviceReach): Promise<Media> {
    if (!isId(id)) throw mediaNotFound(id);
    return await this.store.rows.get(organizationId, id, reach);
  }

  /** As get, with the bytes. Throws `media_not_found`. */
  async content(organizationId: string, id: string, variant: Variant, reach?: DeviceReach): Promise<MediaContent> {
    const media = await this.get(organizationId, id, reach);
    const sizeBytes = await this.files.size(media, variant);
    const known = variant === 'original' ? media.sizeBytes : media.thumbnailBytes;
    if (sizeBytes !== known) {
      // Removed since the row was read, or the data folder was restored without its pictures, or they were damaged. Uploaded again, they heal.
      const facts = { media_id: id, sha256: media.sha256, variant, size_bytes: known };
      if (sizeBytes === undefined) this.options.log.warn(facts, 'media.file_missing');
      else this.options.log.warn({ ...facts, found_bytes: sizeBytes }, 'media.file_damaged');
      throw mediaNotFound(id);
    }
    return { media, variant, sizeBytes, read: (start, end) => this.files.read(media, variant, start, end) };
  }

  /** A limited key is told of the devices inside its reach alone. Throws `media_not_found`, `media_in_use`. */
  async delete(organizationId: string, id: string, reach?: DeviceReach): Promise<void> {
    const media = await this.get(organizationId, id, reach);
    await this.store.remove(media, ({ deviceCount }) => {
      if (deviceCount > 0) throw mediaInUse(id, reach ? Math.max(media.deviceCount, 1) : deviceCount);
      return true;
    });
  }

  /** Removes at most `most` pictures of an organization that goes, wherever they are shown; how many. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    return await this.store.removeSome(organizationId, most);
  }

  /** Removes the files that are left of an organization whose pictures are gone, those in the trash too. */
  async removeFiles(organizationId: string): Promise<void> {
    await this.sweeping.removeFiles(organizationId);
  }

  /** Removes pictures that no device has shown for 24 hours, and looks after files without a row. One at a time; safe to repeat. */
  async sweep(now: number): Promise<void> {
    await this.sweeping.sweep(now);
  }
}

const LONGEST_NAME = 255;

/** The name of a file without its folders, and without characters that are not seen or turn the others around. */
function plainName(filename: string): string {
  const last = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1);
  const seen = last.toWellFormed().replaceAll(/[\p{Cc}\u2028-\u202E\u2066-\u2069]/gu, '').trim();
  return Array.from(seen).slice(0, LONGEST_NAME).join('');
}
