import { dirname, join, resolve } from 'node:path';
import { Disk } from './disk';
import { UploadReceiver, type ReceivedUpload, type UploadLimits } from './uploadReceiver';
import type { Media, Variant } from './media';

const READ_CHUNK_BYTES = 64 * 1024;
const CONTENT_NAME = /^[0-9a-f]{64}$/;
const DAY_NAME = /^\d{4}-\d{2}-\d{2}$/;
const INCOMING_FOLDER = 'incoming';
const TRASH_FOLDER = 'trash';
const THUMBNAIL_SUFFIX = '.small';
const VARIANTS = ['original', 'thumbnail'] as const;
/** The maximum number of hashes in a ContentBatch, which is also the maximum number in an SQL statement. */
const FILE_BATCH_SIZE = 200;

/** Identifies the content of images, that is, the files of all images of an organization with the same bytes. */
export interface ContentName {
  readonly organizationId: string;
  readonly sha256: string;
}

/** The hashes of some image contents of an organization. */
interface ContentBatch {
  readonly organizationId: string;
  readonly hashes: readonly string[];
}

/**
 * The image files, named by their content: `<data>/media/<organization>/<first two digits>/<sha256>`, with the
 * thumbnail next to it. No path contains caller input. A file has its final name only when it is complete and on disk.
 * Unreferenced files are moved to `media/trash/<day>` for a while, in the same folder structure, so that they can be
 * copied back.
 */
export class MediaFiles {
  /** The folder of all image files. */
  readonly root: string;
  /** The folder of unreferenced files. */
  readonly trashFolder: string;
  /** Receives uploads into the folder of incoming files. */
  readonly uploads: UploadReceiver;
  /** The file that names the installation that owns the files. */
  readonly ownerFile: string;
  /** Whether the files belong to this installation; false until `claim` has checked it. */
  isOwned = false;

  constructor(
    dataDir: string,
    private readonly disk = new Disk(),
    limits?: UploadLimits,
  ) {
    this.root = resolve(dataDir, 'media');
    this.uploads = new UploadReceiver(join(this.root, INCOMING_FOLDER), disk, limits);
    this.trashFolder = join(this.root, TRASH_FOLDER);
    this.ownerFile = join(this.root, 'installation');
  }

  /**
   * Makes this installation the owner of the folder if it has no owner or no files. The result is in `isOwned`. Throws
   * `storage_full`.
   */
  async claim(installationId: string): Promise<void> {
    const owner = (await this.disk.readText(this.ownerFile))?.trim() ?? '';
    this.isOwned = owner === installationId;
    if (this.isOwned || (owner !== '' && (await this.hasFiles()))) return;
    await this.disk.createFolder(this.root);
    const file = `${this.ownerFile}.new`;
    await this.disk.remove(file);
    await this.disk.write(file, async (append) => await append(Buffer.from(`${installationId}\n`)));
    await this.disk.move(file, this.ownerFile);
    await this.syncFolders(this.root);
    this.isOwned = true;
  }

  /**
   * Moves received bytes and the thumbnail to their place, and resolves when both are on disk. Throws `storage_full`.
   */
  async store(organizationId: string, { file, sha256 }: ReceivedUpload, thumbnail: Uint8Array): Promise<void> {
    const thumbnailFile = `${file}${THUMBNAIL_SUFFIX}`;
    const name = { organizationId, sha256 };
    try {
      await this.disk.write(thumbnailFile, async (append) => await append(thumbnail));
      await this.disk.move(thumbnailFile, this.getFile(name, 'thumbnail'));
      await this.disk.move(file, this.getFile(name, 'original'));
      await this.syncFolders(this.getFolder(name));
    } finally {
      await this.disk.remove(thumbnailFile);
    }
  }

  /** Returns the paths of an image and its thumbnail, whether they exist or not. */
  listFiles(name: ContentName): readonly string[] {
    return VARIANTS.map((variant) => this.getFile(name, variant));
  }

  /** Removes received bytes that were not stored. */
  async discardUpload({ file }: ReceivedUpload): Promise<void> {
    await this.disk.remove(file);
  }

  /** Returns the size of a file in bytes; undefined: it does not exist. */
  async getSize(name: ContentName, variant: Variant): Promise<number | undefined> {
    return (await this.disk.stat(this.getFile(name, variant)))?.size;
  }

  /** Whether both files of an image exist with the recorded sizes. */
  async isComplete(media: Media): Promise<boolean> {
    return (
      (await this.getSize(media, 'original')) === media.sizeBytes &&
      (await this.getSize(media, 'thumbnail')) === media.thumbnailBytes
    );
  }

  /** Reads the bytes from `start` up to but excluding `end`, in chunks. */
  async *read(name: ContentName, variant: Variant, start: number, end: number): AsyncGenerator<Uint8Array> {
    const file = await this.disk.fs.open(this.getFile(name, variant), 'r');
    try {
      for (let position = start; position < end;) {
        const { bytesRead, buffer } = await file.read(
          Buffer.allocUnsafe(Math.min(READ_CHUNK_BYTES, end - position)),
          0,
          undefined,
          position,
        );
        if (bytesRead === 0) throw new Error(`the file of the image ${name.sha256} is shorter than before`);
        yield buffer.subarray(0, bytesRead);
        position += bytesRead;
      }
    } finally {
      await file.close();
    }
  }

  /** Removes an image file and its thumbnail, and their folders that are then empty. */
  async remove(name: ContentName): Promise<void> {
    await this.disk.remove(...VARIANTS.map((variant) => this.getFile(name, variant)));
    await this.disk.removeIfEmpty(this.getFolder(name));
  }

  /** Whether an image file and its thumbnail were last written before `time` (Unix milliseconds), or do not exist. */
  async isOlderThan(name: ContentName, time: number): Promise<boolean> {
    const fileStats = await Promise.all(
      VARIANTS.map(async (variant) => await this.disk.stat(this.getFile(name, variant))),
    );
    return fileStats.every((fileStat) => fileStat === undefined || fileStat.mtimeMs < time);
  }

  /** Lists the contents of all images in batches. */
  async *listContents(): AsyncGenerator<ContentBatch> {
    for (const organizationId of await this.disk.listFolder(this.root)) {
      if (organizationId !== INCOMING_FOLDER && organizationId !== TRASH_FOLDER)
        yield* this.listOrganizationContents(this.root, organizationId);
    }
  }

  /** Moves an image file and its thumbnail to the trash of a day (`2026-01-31`). */
  async moveToTrash(name: ContentName, day: string): Promise<void> {
    const to = join(this.trashFolder, day);
    for (const variant of VARIANTS) {
      const file = this.getFile(name, variant);
      if (await this.disk.stat(file)) await this.disk.move(file, this.getFile(name, variant, to));
    }
    await this.syncFolders(this.getFolder(name, to));
    await this.disk.removeIfEmpty(this.getFolder(name));
  }

  /** Lists the days that have trash. */
  async listTrashDays(): Promise<readonly string[]> {
    return (await this.disk.listFolder(this.trashFolder)).filter((name) => DAY_NAME.test(name));
  }

  /** Lists the contents in the trash of a day in batches. */
  async *listTrash(day: string): AsyncGenerator<ContentBatch> {
    for (const organizationId of await this.disk.listFolder(join(this.trashFolder, day)))
      yield* this.listOrganizationContents(join(this.trashFolder, day), organizationId);
  }

  /**
   * Restores an image file and its thumbnail from the trash of a day. A file whose place is taken (it was uploaded
   * again) stays as it is; the one in the trash is then removed.
   */
  async restoreFromTrash(name: ContentName, day: string): Promise<void> {
    for (const variant of VARIANTS) {
      const [file, trashedFile] = [
        this.getFile(name, variant),
        this.getFile(name, variant, join(this.trashFolder, day)),
      ];
      if (!(await this.disk.stat(file)) && (await this.disk.stat(trashedFile))) await this.disk.move(trashedFile, file);
    }
    await this.syncFolders(this.getFolder(name));
    await this.disk.remove(...VARIANTS.map((variant) => this.getFile(name, variant, join(this.trashFolder, day))));
  }

  /** Removes the trash of a day. */
  async removeTrash(day: string): Promise<void> {
    await this.disk.removeFolder(join(this.trashFolder, day));
  }

  /** Removes all files of an organization. */
  async removeOrganization(organizationId: string): Promise<void> {
    await this.disk.removeFolder(join(this.root, organizationId));
    for (const day of await this.listTrashDays())
      await this.disk.removeFolder(join(this.trashFolder, day, organizationId));
  }

  private async syncFolders(folder: string): Promise<void> {
    await this.disk.syncFolders(folder, dirname(this.root));
  }

  /** Whether there are any image files, including the trash. */
  private async hasFiles(): Promise<boolean> {
    for await (const _ of this.listContents()) return true;
    return (await this.listTrashDays()).length > 0;
  }

  /**
   * Lists the image contents of an organization below `root`, in the folders named by the first two digits of the hash.
   * Each is listed once, although it has two files. Other files are ignored.
   */
  private async *listOrganizationContents(root: string, organizationId: string): AsyncGenerator<ContentBatch> {
    for (const digits of await this.disk.listFolder(join(root, organizationId))) {
      const files = await this.disk.listFolder(join(root, organizationId, digits));
      const hashes = new Set(
        files.map((file) => (file.endsWith(THUMBNAIL_SUFFIX) ? file.slice(0, -THUMBNAIL_SUFFIX.length) : file)),
      );
      const validHashes = [...hashes].filter((hash) => CONTENT_NAME.test(hash));
      for (let offset = 0; offset < validHashes.length; offset += FILE_BATCH_SIZE)
        yield { organizationId, hashes: validHashes.slice(offset, offset + FILE_BATCH_SIZE) };
    }
  }

  private getFolder({ organizationId, sha256 }: ContentName, root = this.root): string {
    return join(root, organizationId, sha256.slice(0, 2));
  }

  private getFile(name: ContentName, variant: Variant, root = this.root): string {
    return join(this.getFolder(name, root), variant === 'original' ? name.sha256 : `${name.sha256}${THUMBNAIL_SUFFIX}`);
  }
}
