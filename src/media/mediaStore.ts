import { CommitOutcomeUnknownError, UnitOfWork, type Database } from '../database';
import type { ReceivedUpload } from './uploadReceiver';
import { KeyedMutex } from './keyedMutex';
import type { Media } from './media';
import type { ContentName, MediaFiles } from './mediaFiles';
import { MediaRemovalRepository, type StoredMedia } from './mediaRemovalRepository';
import { MediaRepository } from './mediaRepository';

/**
 * Keeps rows in the database and files named by their content consistent. A row always has its file: the file is on
 * disk before the row is committed, and is removed only after the last row with the same content is deleted. To
 * guarantee this under concurrency, there is one lock for each content: adding or removing a row or file with that
 * content holds the lock from the first check to the last step. This process is the only one that uses the data folder
 * (it is locked), so locks in memory are sufficient. A crash in between leaves a file without a row, which the garbage
 * collector removes.
 */
export class MediaStore {
  /** For reads. Only the store writes rows. */
  readonly repository: MediaRepository;
  private readonly uow: UnitOfWork<MediaRepository>;
  private readonly contentLocks = new KeyedMutex();

  constructor(
    private readonly database: Database,
    private readonly files: MediaFiles,
  ) {
    this.uow = new UnitOfWork(database, (db) => new MediaRepository(db));
    this.repository = this.uow.repos;
  }

  /**
   * Adds an image and returns the stored record; resolves when bytes and row are on disk. If the organization already
   * has the content with complete files, these are reused, including their thumbnail. Throws `storage_full`,
   * `organization_not_found`.
   */
  async add(media: Media, received: ReceivedUpload, thumbnail: Uint8Array): Promise<Media> {
    let stored = media;
    await this.runLocked(media, async () => {
      const existing = await this.repository.findByContent(media.organizationId, media.sha256);
      const isReusable = existing !== undefined && (await this.files.isComplete(existing));
      if (isReusable) stored = { ...media, thumbnailBytes: existing.thumbnailBytes };
      else await this.files.store(media.organizationId, received, thumbnail);
      try {
        await this.uow.transaction(async (repository) => {
          await repository.create(stored);
          if (existing && !isReusable) await repository.replaceThumbnail(stored);
        });
      } catch (error) {
        // Otherwise the garbage collector removes the file a day later, as it does if this fails.
        if (!(error instanceof CommitOutcomeUnknownError))
          await this.removeIfUnreferenced(media).catch(() => undefined);
        throw error;
      }
    });
    return stored;
  }

  /**
   * Removes an image if `shouldRemove` still returns true for the locked image, and its files if no other image has the
   * same content. Throws `media_not_found`.
   */
  async remove(media: Media, shouldRemove: (locked: Media) => boolean): Promise<void> {
    await this.runLocked(media, async () => {
      const { organizationId, id } = media;
      const isRemoved = await this.uow.transaction(async (repository) => {
        const shouldDelete = shouldRemove(await repository.lock(organizationId, id));
        if (shouldDelete) await repository.delete(organizationId, id);
        return shouldDelete;
      });
      if (isRemoved) await this.removeIfUnreferenced(media);
    });
  }

  /**
   * Removes at most `max` images of an organization that is being deleted, used or not, and their files; returns how
   * many.
   */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    const media = await new MediaRemovalRepository(this.database.db).listBatch(organizationId, max);
    for (const item of media) await this.deleteMedia(item);
    return media.length;
  }

  /** Works on the files of an image while its content is locked; `isReferenced`: whether a row refers to them. */
  async runWithContentLock(name: ContentName, work: (isReferenced: boolean) => Promise<void>): Promise<void> {
    await this.runLocked(name, async () => await work(await this.isReferenced(name)));
  }

  /** Deletes an image and its uses on devices, and its files if it was the last one with its content. */
  private async deleteMedia(media: StoredMedia): Promise<void> {
    await this.runLocked(media, async () => {
      await this.database.transaction(async (db) => await new MediaRemovalRepository(db).remove(media));
      await this.removeIfUnreferenced(media);
    });
  }

  /** Removes image files to which no row refers, if they belong to this installation. */
  private async removeIfUnreferenced(name: ContentName): Promise<void> {
    if (this.files.isOwned && !(await this.isReferenced(name))) await this.files.remove(name);
  }

  private async isReferenced({ organizationId, sha256 }: ContentName): Promise<boolean> {
    return (await this.repository.findReferencedHashes(organizationId, [sha256])).size > 0;
  }

  /**
   * Runs the work while the content is locked. If it is then unknown whether its row was committed, the lock is held
   * until that is known: otherwise the file could be removed before the row appears.
   */
  private async runLocked(name: ContentName, work: () => Promise<void>): Promise<void> {
    const unlock = await this.contentLocks.lock(`${name.organizationId}/${name.sha256}`);
    let transactionEnd: Promise<void> = Promise.resolve();
    try {
      await work();
    } catch (error) {
      if (error instanceof CommitOutcomeUnknownError) transactionEnd = error.transactionEnded;
      throw error;
    } finally {
      void transactionEnd.then(unlock);
    }
  }
}
