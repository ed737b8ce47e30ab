import { CommitUnknown, UnitOfWork, type Database } from '../database';
import type { Clock } from '../kernel/clock';
import { isId, newId } from '../kernel/ids';
import type { Logger } from '../kernel/logger';
import { KeyedTurns } from './keyedTurns';
import { mediaInUse, mediaNotFound, UNUSED_MS, type Media, type Variant } from './media';
import { MediaFiles, type ContentName, type Received } from './mediaFiles';
import { MediaRepository } from './mediaRepository';
import { PictureReader } from './pictureReader';

const HOUR_MS = 3_600_000;
const AT_ONCE = 100;

/** What the service stands on. */
export interface MediaServiceOptions {
  readonly database: Database;
  /** The files lie below it, whichever database there is. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** When a picture that is still being decoded is given up, in milliseconds; absent: 30 s. */
  readonly decodeMs?: number | undefined;
}

/** The bytes of a picture. */
export interface MediaContent {
  readonly media: Media;
  readonly variant: Variant;
  readonly sizeBytes: number;
  /** The bytes from `start` to before `end`, in pieces of at most 64 KiB. */
  read(start: number, end: number): AsyncIterable<Uint8Array>;
}

/**
 * Pictures: rows in the database, bytes in files that are named by their content.
 *
 * A row never lacks its file: the file is in its place and on disk before the row is committed, and it is removed only after the last row of
 * its content is gone. That both hold while the same content comes and goes at once, each content has turns: whoever adds or removes a row of it,
 * or its file, does so from the first look to the last step alone. This process is the only one that works on the data folder (its lock), so turns
 * in memory are enough. A crash in between leaves a file without a row, which the sweep removes.
 */
export class MediaService {
  private readonly uow: UnitOfWork<MediaRepository>;
  private readonly files: MediaFiles;
  private readonly reader: PictureReader;
  private readonly turns = new KeyedTurns();
  private sweeping: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(private readonly options: MediaServiceOptions) {
    this.uow = new UnitOfWork(options.database, (db) => new MediaRepository(db));
    this.files = new MediaFiles(options.dataDir);
    this.reader = new PictureReader({ log: options.log, timeMs: options.decodeMs });
  }

  /** Removes what a crash left behind: half uploads at once, files without a row in the background. To be called once, before the first upload. */
  async start(): Promise<void> {
    await this.files.clearIncoming();
    void this.sweep(this.options.clock.now()).catch((error: unknown) => this.options.log.warn({ err: error }, 'media.sweep_failed'));
  }

  /** Waits for nothing but the sweep's next step; uploads are refused with `shutting_down`. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.reader.stop();
    await this.sweeping.catch(() => undefined); // whoever started it was told
  }

  /**
   * Stores a picture; when it resolves bytes and row are on disk. Throws `validation_failed` (empty, too large, no picture that is taken, damaged),
   * `media_busy`, `storage_full`.
   */
  async upload(organizationId: string, filename: string, chunks: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<Media> {
    const received = await this.files.receive(chunks);
    try {
      const { thumbnail, ...picture } = await this.reader.read(received.file, signal);
      const { sha256, sizeBytes } = received;
      const now = this.options.clock.now();
      const fields = { sha256, sizeBytes, filename: plainName(filename), thumbnailBytes: thumbnail.length, createdAt: now, unusedSince: now, deviceCount: 0 };
      const media: Media = { id: newId(), organizationId, ...picture, ...fields };
      await this.store(media, received, thumbnail);
      return media;
    } finally {
      await this.files.discard(received);
    }
  }

  /** Throws `media_not_found`. */
  async get(organizationId: string, id: string): Promise<Media> {
    if (!isId(id)) throw mediaNotFound(id);
    return await this.uow.repos.get(organizationId, id);
  }

  /** Throws `media_not_found`. */
  async content(organizationId: string, id: string, variant: Variant): Promise<MediaContent> {
    const media = await this.get(organizationId, id);
    const sizeBytes = await this.files.size(media, variant);
    if (sizeBytes === undefined) {
      // Removed since the row was read, or the data folder was restored without its pictures.
      this.options.log.warn({ media_id: id, sha256: media.sha256 }, 'media.file_missing');
      throw mediaNotFound(id);
    }
    return { media, variant, sizeBytes, read: (start, end) => this.files.read(media, variant, start, end) };
  }

  /** Throws `media_not_found`, `media_in_use`. */
  async delete(organizationId: string, id: string): Promise<void> {
    const media = await this.get(organizationId, id);
    await this.remove(media, ({ deviceCount }) => {
      if (deviceCount > 0) throw mediaInUse(id, deviceCount);
      return true;
    });
  }

  /** Removes pictures that no device has shown for 24 hours, and files without a row that are an hour old. One at a time; safe to repeat. */
  async sweep(now: number): Promise<void> {
    this.sweeping = this.sweepAfter(this.sweeping, now);
    await this.sweeping;
  }

  private async sweepAfter(before: Promise<void>, now: number): Promise<void> {
    await before.catch(() => undefined); // whoever started it was told
    await this.sweepUnused(now - UNUSED_MS);
    await this.sweepFiles(now - HOUR_MS);
  }

  private async store(media: Media, received: Received, thumbnail: Uint8Array): Promise<void> {
    await this.inTurn(media, async () => {
      await this.files.keep(media.organizationId, received, thumbnail);
      await this.uow.transaction(async (repository) => await repository.create(media));
    });
  }

  /** Removes a picture and, if it was the last of its content, the files. */
  private async remove(media: Media, mayGo: (locked: Media) => boolean): Promise<void> {
    await this.inTurn(media, async () => {
      const { organizationId, id } = media;
      const gone = await this.uow.transaction(async (repository) => {
        const may = mayGo(await repository.lock(organizationId, id));
        if (may) await repository.delete(organizationId, id);
        return may;
      });
      if (gone) await this.removeUnnamed(media);
    });
  }

  /** In the content's turn: removes files that no row names. */
  private async removeUnnamed(name: ContentName): Promise<void> {
    const { size } = await this.uow.repos.contents(name.organizationId, [name.sha256]);
    if (size === 0) await this.files.remove(name);
  }

  private async sweepUnused(since: number): Promise<void> {
    for (let afterId = ''; !this.stopped; ) {
      const unused = await this.uow.repos.unusedSince(since, afterId, AT_ONCE);
      for (const { organizationId, id } of unused) if (!this.stopped) await this.sweepOne(organizationId, id, since);
      const last = unused.at(-1);
      if (!last || unused.length < AT_ONCE) return;
      afterId = last.id;
    }
  }

  private async sweepOne(organizationId: string, id: string, since: number): Promise<void> {
    try {
      await this.remove(await this.get(organizationId, id), ({ deviceCount, unusedSince }) => deviceCount === 0 && unusedSince !== undefined && unusedSince <= since);
    } catch (error) {
      this.options.log.warn({ err: error, media_id: id }, 'media.sweep_failed'); // deleted meanwhile, for example; the others go on
    }
  }

  private async sweepFiles(before: number): Promise<void> {
    for await (const { organizationId, hashes } of this.files.contents()) {
      if (this.stopped) return;
      const named = await this.uow.repos.contents(organizationId, hashes);
      for (const sha256 of hashes) if (!named.has(sha256)) await this.sweepFile({ organizationId, sha256 }, before);
    }
  }

  private async sweepFile(name: ContentName, before: number): Promise<void> {
    await this.inTurn(name, async () => {
      if (await this.files.isOlder(name, before)) await this.removeUnnamed(name);
    });
  }

  /** Where nobody knows whether the row was committed, the turn lasts until it is known: else the file could be removed before the row appears. */
  private async inTurn(name: ContentName, work: () => Promise<void>): Promise<void> {
    const end = await this.turns.take(`${name.organizationId}/${name.sha256}`);
    let over: Promise<void> = Promise.resolve();
    try {
      await work();
    } catch (error) {
      if (error instanceof CommitUnknown) ({ over } = error);
      throw error;
    } finally {
      void over.then(end);
    }
  }
}

const LONGEST_NAME = 255;

/** The name of a file without its folders, and without characters that are not seen or turn the others around. */
function plainName(filename: string): string {
  const last = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1);
  const seen = last.toWellFormed().replaceAll(/[\p{Cc}\u2028-\u202E\u2066-\u2069]/gu, '').trim();
  return Array.from(seen).slice(0, LONGEST_NAME).join('');
}
