import type { Logger } from '../kernel/logger';
import { DAY_MS } from '../kernel/timeUnits';
import { UNUSED_RETENTION_MS } from './media';
import type { MediaFiles } from './mediaFiles';
import type { UnusedMedia } from './mediaRepository';
import type { MediaStore } from './mediaStore';

const TRASH_DAYS = 7;
const DELETE_BATCH_SIZE = 100;

/** The dependencies of the garbage collector. */
interface MediaGarbageCollectorOptions {
  readonly store: MediaStore;
  readonly files: MediaFiles;
  readonly log: Logger;
}

/**
 * Removes unused images, which no device shows, and files without a database row. Files without a row may belong to
 * another database, if this one is the wrong one or an old copy. Therefore they stay in the trash for a week, and are
 * restored as soon as a row refers to them.
 */
export class MediaGarbageCollector {
  private lastRun: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(private readonly options: MediaGarbageCollectorOptions) {}

  /**
   * Checks who owns the files, and starts to restore referenced files from the trash in the background. If the files
   * belong to another installation, or the check fails (it is repeated at the next start), no file is removed or moved
   * to the trash; files that a row of this database refers to are still restored.
   */
  async start(installationId: string): Promise<void> {
    const { files, log } = this.options;
    try {
      await files.claim(installationId);
      if (!files.isOwned)
        log.error(
          { folder: files.root, message: formatForeignOwnerMessage(files.ownerFile) },
          'media.foreign_installation',
        );
    } catch (error) {
      log.warn({ err: error, folder: files.root }, 'media.cleanup_skipped'); // until the next start
    }
    void this.runQueued(async () => await this.restoreFromTrash()).catch((error: unknown) =>
      log.warn({ err: error }, 'media.cleanup_failed'),
    );
  }

  /** Stops after the current step; resolves when that has ended. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.lastRun.catch(() => undefined); // its caller was already notified
  }

  /**
   * Removes images that no device has shown for 24 hours, and moves files without a row to the trash. One run at a
   * time; safe to repeat.
   */
  async collectGarbage(now: number): Promise<void> {
    await this.runQueued(async () => {
      await this.deleteUnused(now - UNUSED_RETENTION_MS);
      await this.restoreFromTrash();
      if (this.options.files.isOwned) await this.moveToTrash(now);
      if (this.options.files.isOwned) await this.removeOldTrash(now);
    });
  }

  /** Removes all files of an organization, if they belong to this installation. */
  async removeFiles(organizationId: string): Promise<void> {
    await this.runQueued(async () => {
      if (this.options.files.isOwned) await this.options.files.removeOrganization(organizationId);
    });
  }

  /** Runs the work after the previous work has ended, even if that failed. */
  private async runQueued(work: () => Promise<void>): Promise<void> {
    const previous = this.lastRun;
    this.lastRun = previous.catch(() => undefined).then(work);
    await this.lastRun;
  }

  /**
   * Deletes the images that no device has shown since `unusedBefore`, in batches. Each batch starts after the previous
   * one, because images that could not be deleted are still listed.
   */
  private async deleteUnused(unusedBefore: number): Promise<void> {
    for (let after: UnusedMedia | undefined; !this.stopped;) {
      const unused = await this.options.store.repository.listUnused(unusedBefore, after, DELETE_BATCH_SIZE);
      for (const { organizationId, id } of unused)
        if (!this.stopped) await this.deleteIfUnused(organizationId, id, unusedBefore);
      after = unused.at(-1);
      if (!after || unused.length < DELETE_BATCH_SIZE) return;
    }
  }

  /** Deletes an image if it is still unused when it is locked. */
  private async deleteIfUnused(organizationId: string, id: string, unusedBefore: number): Promise<void> {
    const { store, log } = this.options;
    try {
      await store.remove(
        await store.repository.get(organizationId, id),
        ({ deviceCount, unusedSince }) => deviceCount === 0 && unusedSince !== undefined && unusedSince <= unusedBefore,
      );
    } catch (error) {
      // Deleted concurrently, for example; the others continue.
      log.warn({ err: error, media_id: id }, 'media.cleanup_failed');
    }
  }

  /**
   * Moves files without a row to the trash if they are older than a day: younger files may belong to an upload that is
   * not committed yet.
   */
  private async moveToTrash(now: number): Promise<void> {
    const { store, files, log } = this.options;
    const day = formatDay(now);
    let count = 0;
    for await (const { organizationId, hashes } of files.listContents()) {
      const referencedHashes = await store.repository.findReferencedHashes(organizationId, hashes);
      for (const sha256 of hashes) {
        if (this.stopped) return;
        const name = { organizationId, sha256 };
        if (!referencedHashes.has(sha256))
          await store.runWithContentLock(name, async (isReferenced) => {
            if (isReferenced || !(await files.isOlderThan(name, now - DAY_MS))) return;
            await files.moveToTrash(name, day);
            count += 1;
          });
      }
    }
    if (count > 0) log.warn({ count, folder: files.trashFolder, kept_days: TRASH_DAYS }, 'media.moved_to_trash');
  }

  /** Restores files in the trash that a row refers to. */
  private async restoreFromTrash(): Promise<void> {
    const { store, files, log } = this.options;
    let count = 0;
    for (const day of await files.listTrashDays()) {
      for await (const { organizationId, hashes } of files.listTrash(day)) {
        for (const sha256 of await store.repository.findReferencedHashes(organizationId, hashes)) {
          if (this.stopped) return;
          const name = { organizationId, sha256 };
          await store.runWithContentLock(name, async (isReferenced) => {
            if (!isReferenced) return;
            await files.restoreFromTrash(name, day);
            count += 1;
          });
        }
      }
    }
    if (count > 0) log.warn({ count, folder: files.trashFolder }, 'media.restored');
  }

  /**
   * Removes the trash of the days before the last TRASH_DAYS. Runs after `restoreFromTrash`, so that no file to which a
   * row refers is lost.
   */
  private async removeOldTrash(now: number): Promise<void> {
    const { files, log } = this.options;
    const oldestKeptDay = formatDay(now - TRASH_DAYS * DAY_MS);
    for (const day of await files.listTrashDays()) {
      if (this.stopped || day >= oldestKeptDay) continue; // ISO dates sort as texts
      await files.removeTrash(day);
      log.info({ day }, 'media.trash_removed');
    }
  }
}

const formatDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

function formatForeignOwnerMessage(owner: string): string {
  return `these images belong to another database, so files without a record are not deleted. If the database is the wrong one, stop the server and correct PLANTROOM_DATABASE_URL or PLANTROOM_DATA_DIR. If this database is to own the folder, delete ${owner} and restart the server`;
}
