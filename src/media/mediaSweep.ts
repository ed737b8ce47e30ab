import type { Logger } from '../kernel/logger';
import { UNUSED_MS } from './media';
import type { MediaFiles } from './mediaFiles';
import type { UnusedMedia } from './mediaRepository';
import type { MediaStore } from './mediaStore';

const DAY_MS = 24 * 3_600_000;
const TRASH_DAYS = 7;
const AT_ONCE = 100;

/** What is swept. */
export interface MediaSweepOptions {
  readonly store: MediaStore;
  readonly files: MediaFiles;
  readonly log: Logger;
}

/**
 * Removes what nobody needs: pictures that no device shows, and files that no row names. The latter may be the pictures of another
 * database, where this one is the wrong one or an old copy: they lie in the trash for a week first, and are taken out of it as soon as a row names them.
 */
export class MediaSweep {
  private last: Promise<void> = Promise.resolve();
  private stopped = false;
  private ownsFiles = false;

  constructor(private readonly options: MediaSweepOptions) {}

  /** Finds out whose the files are, and takes back what is needed of the trash. Another installation's files are left alone. */
  async start(installationId: string): Promise<void> {
    const { files, log } = this.options;
    try {
      this.ownsFiles = await files.claim(installationId);
      if (!this.ownsFiles) log.error({ folder: files.root, message: foreign(files.owner) }, 'media.of_another_database');
    } catch (error) {
      log.warn({ err: error, folder: files.root }, 'media.files_not_swept'); // until the next start
    }
    void this.queued(async () => await this.takeBack()).catch((error: unknown) => log.warn({ err: error }, 'media.sweep_failed'));
  }

  /** Waits for nothing but the next step. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.last.catch(() => undefined); // whoever started it was told
  }

  /** Removes pictures that no device has shown for 24 hours, and looks after files without a row. One at a time; safe to repeat. */
  async sweep(now: number): Promise<void> {
    await this.queued(async () => {
      await this.removeUnused(now - UNUSED_MS);
      await this.takeBack();
      if (this.ownsFiles) await this.throwAway(now);
      if (this.ownsFiles) await this.emptyTrash(now);
    });
  }

  /** Removes all files of an organization, if they belong to this installation. */
  async removeFiles(organizationId: string): Promise<void> {
    await this.queued(async () => {
      if (this.ownsFiles) await this.options.files.removeOrganization(organizationId);
    });
  }

  private async queued(work: () => Promise<void>): Promise<void> {
    const before = this.last;
    this.last = before.catch(() => undefined).then(work);
    await this.last;
  }

  private async removeUnused(since: number): Promise<void> {
    for (let after: UnusedMedia | undefined; !this.stopped; ) {
      const unused = await this.options.store.rows.unusedSince(since, after, AT_ONCE);
      for (const { organizationId, id } of unused) if (!this.stopped) await this.removeOne(organizationId, id, since);
      after = unused.at(-1);
      if (!after || unused.length < AT_ONCE) return;
    }
  }

  private async removeOne(organizationId: string, id: string, since: number): Promise<void> {
    const { store, log } = this.options;
    try {
      await store.remove(await store.rows.get(organizationId, id), ({ deviceCount, unusedSince }) => deviceCount === 0 && unusedSince !== undefined && unusedSince <= since);
    } catch (error) {
      log.warn({ err: error, media_id: id }, 'media.sweep_failed'); // deleted meanwhile, for example; the others go on
    }
  }

  private async throwAway(now: number): Promise<void> {
    const { store, files, log } = this.options;
    const day = dayOf(now);
    let pictures = 0;
    for await (const { organizationId, hashes } of files.contents()) {
      const named = await store.rows.contents(organizationId, hashes);
      for (const sha256 of hashes) {
        if (this.stopped) return;
        const name = { organizationId, sha256 };
        if (!named.has(sha256)) await store.alone(name, async (isNamed) => {
          if (isNamed || !(await files.isOlder(name, now - DAY_MS))) return;
          await files.throwAway(name, day);
          pictures += 1;
        });
      }
    }
    if (pictures > 0) log.warn({ pictures, folder: files.trash, kept_days: TRASH_DAYS }, 'media.thrown_away');
  }

  private async takeBack(): Promise<void> {
    const { store, files, log } = this.options;
    let pictures = 0;
    for (const day of await files.trashDays()) {
      for await (const { organizationId, hashes } of files.trashed(day)) {
        for (const sha256 of await store.rows.contents(organizationId, hashes)) {
          if (this.stopped) return;
          const name = { organizationId, sha256 };
          await store.alone(name, async (isNamed) => {
            if (!isNamed) return;
            await files.takeBack(name, day);
            pictures += 1;
          });
        }
      }
    }
    if (pictures > 0) log.warn({ pictures, folder: files.trash }, 'media.taken_back');
  }

  /** After `takeBack`: a row that appeared since brought its files along. */
  private async emptyTrash(now: number): Promise<void> {
    const { files, log } = this.options;
    const last = dayOf(now - TRASH_DAYS * DAY_MS);
    for (const day of await files.trashDays()) {
      if (this.stopped || day >= last) continue;
      await files.removeTrash(day);
      log.info({ day }, 'media.trash_removed');
    }
  }
}

const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10);

function foreign(owner: string): string {
  return `these pictures belong to another database than this one, so files that no record names are left alone. If the database is the wrong one, stop the server and correct PLANTROOM_DATABASE_URL or PLANTROOM_DATA_DIR; if it is to take over the folder, remove ${owner} and start again`;
}
