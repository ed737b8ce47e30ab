import { CommitUnknown, UnitOfWork, type Database } from '../database';
import type { Received } from './incoming';
import { KeyedTurns } from './keyedTurns';
import type { Media } from './media';
import type { ContentName, MediaFiles } from './mediaFiles';
import { MediaRemovalRepository, type NamedPicture } from './mediaRemovalRepository';
import { MediaRepository } from './mediaRepository';

/**
 * Rows in the database and files that are named by their content, together.
 *
 * A row never lacks its file: the file is in its place and on disk before the row is committed, and it is removed only after the last row of
 * its content is gone. That both hold while the same content comes and goes at once, each content has turns: whoever adds or removes a row of it,
 * or its file, does so from the first look to the last step alone. This process is the only one that works on the data folder (its lock), so turns
 * in memory are enough. A crash in between leaves a file without a row, which the sweep finds.
 */
export class MediaStore {
  /** For reads; rows are written by the store alone. */
  readonly rows: MediaRepository;
  private readonly uow: UnitOfWork<MediaRepository>;
  private readonly turns = new KeyedTurns();

  constructor(
    private readonly database: Database,
    private readonly files: MediaFiles,
  ) {
    this.uow = new UnitOfWork(database, (db) => new MediaRepository(db));
    this.rows = this.uow.repos;
  }

  /**
   * Adds a picture, and gives it as it was stored; when it resolves bytes and row are on disk. Where the organization has its content already
   * and the files are whole, they stay, the small picture of then too. Throws `storage_full`, `organization_not_found`.
   */
  async add(media: Media, received: Received, thumbnail: Uint8Array): Promise<Media> {
    let stored = media;
    await this.inTurn(media, async () => {
      const same = await this.rows.sameContent(media.organizationId, media.sha256);
      const isWhole = same !== undefined && (await this.files.isWhole(same));
      if (isWhole) stored = { ...media, thumbnailBytes: same.thumbnailBytes };
      else await this.files.keep(media.organizationId, received, thumbnail);
      try {
        await this.uow.transaction(async (repository) => {
          await repository.create(stored);
          if (same && !isWhole) await repository.replaceThumbnail(stored);
        });
      } catch (error) {
        // Else it would lie there for a day. Where not even this works, it does.
        if (!(error instanceof CommitUnknown)) await this.removeUnnamed(media).catch(() => undefined);
        throw error;
      }
    });
    return stored;
  }

  /** Removes a picture if `mayGo` still says so, and the files if it was the last of its content. Throws `media_not_found`. */
  async remove(media: Media, mayGo: (locked: Media) => boolean): Promise<void> {
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

  /** Removes at most `most` pictures of an organization that goes, wherever they are shown, and their files; how many. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    const pictures = await new MediaRemovalRepository(this.database.db).some(organizationId, most);
    for (const picture of pictures) await this.erase(picture);
    return pictures.length;
  }

  /** Works on the files of a content while nothing else does; `isNamed` tells whether a row names it. */
  async alone(name: ContentName, work: (isNamed: boolean) => Promise<void>): Promise<void> {
    await this.inTurn(name, async () => await work(await this.isNamed(name)));
  }

  private async erase(picture: NamedPicture): Promise<void> {
    await this.inTurn(picture, async () => {
      await this.database.transaction(async (db) => await new MediaRemovalRepository(db).remove(picture));
      await this.removeUnnamed(picture);
    });
  }

  private async removeUnnamed(name: ContentName): Promise<void> {
    if (!(await this.isNamed(name))) await this.files.remove(name);
  }

  private async isNamed({ organizationId, sha256 }: ContentName): Promise<boolean> {
    return (await this.rows.contents(organizationId, [sha256])).size > 0;
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
