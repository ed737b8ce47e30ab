import { dirname, join, resolve } from 'node:path';
import { Disk } from './disk';
import { Incoming, type Received, type UploadLimits } from './incoming';
import type { Media, Variant } from './media';

const READ_BYTES = 64 * 1024;
const CONTENT_NAME = /^[0-9a-f]{64}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INCOMING = 'incoming';
const TRASH = 'trash';
const SMALL = '.small';
const VARIANTS = ['original', 'thumbnail'] as const;
/** How many contents are looked for in one statement. */
const AT_ONCE = 200;

/** The content of an organization's picture. */
export interface ContentName {
  readonly organizationId: string;
  readonly sha256: string;
}

/** Some contents of an organization. */
export interface SomeContents {
  readonly organizationId: string;
  readonly hashes: readonly string[];
}

/**
 * The bytes of pictures as files, named by their content: `<data>/media/<organization>/<first two digits>/<sha256>`, the small picture beside
 * it. Nothing that a caller says becomes a part of a path. A file stands under its final name only as a whole, and on disk. What nobody
 * names lies in `media/trash/<day>` for a while, in the same folders, so that it can be copied back.
 */
export class MediaFiles {
  /** Where all of it lies. */
  readonly root: string;
  /** Where lies what nobody named. */
  readonly trash: string;
  /** What arrives. */
  readonly incoming: Incoming;
  /** Says to which installation the files belong. */
  readonly owner: string;

  constructor(
    dataDir: string,
    private readonly disk = new Disk(),
    limits?: UploadLimits,
  ) {
    this.root = resolve(dataDir, 'media');
    this.incoming = new Incoming(join(this.root, INCOMING), disk, limits);
    this.trash = join(this.root, TRASH);
    this.owner = join(this.root, 'installation');
  }

  /**
   * Whether the files belong to this installation. Where nobody has any yet, they do from now on. Throws `storage_full`.
   */
  async claim(installationId: string): Promise<boolean> {
    const owner = (await this.disk.text(this.owner))?.trim() ?? '';
    if (owner !== '' && owner !== installationId && (await this.isAny())) return false;
    if (owner === installationId) return true;
    await this.disk.makeFolder(this.root);
    const file = `${this.owner}.new`;
    await this.disk.remove(file);
    await this.disk.write(file, async (append) => await append(Buffer.from(`${installationId}\n`)));
    await this.disk.move(file, this.owner);
    await this.settle(this.root);
    return true;
  }

  /** Moves received bytes to their place, the small picture beside them, and resolves when all is on disk. Throws `storage_full`. */
  async keep(organizationId: string, { file, sha256 }: Received, thumbnail: Uint8Array): Promise<void> {
    const small = `${file}${SMALL}`;
    const name = { organizationId, sha256 };
    try {
      await this.disk.write(small, async (append) => await append(thumbnail));
      await this.disk.move(small, this.fileOf(name, 'thumbnail'));
      await this.disk.move(file, this.fileOf(name, 'original'));
      await this.settle(this.folderOf(name));
    } finally {
      await this.disk.remove(small);
    }
  }

  /** Where the files of a content are, or would be. */
  filesOf(name: ContentName): readonly string[] {
    return VARIANTS.map((variant) => this.fileOf(name, variant));
  }

  /** Removes received bytes that were not kept. */
  async discard({ file }: Received): Promise<void> {
    await this.disk.remove(file);
  }

  /** The size of a file in bytes; undefined: it is not there. */
  async size(name: ContentName, variant: Variant): Promise<number | undefined> {
    return (await this.disk.stat(this.fileOf(name, variant)))?.size;
  }

  /** Whether both files of a picture are there in the sizes that are known of it. */
  async isWhole(media: Media): Promise<boolean> {
    return (await this.size(media, 'original')) === media.sizeBytes && (await this.size(media, 'thumbnail')) === media.thumbnailBytes;
  }

  /** The bytes from `start` to before `end`, in pieces. */
  async *read(name: ContentName, variant: Variant, start: number, end: number): AsyncGenerator<Uint8Array> {
    const file = await this.disk.fs.open(this.fileOf(name, variant), 'r');
    try {
      for (let at = start; at < end; ) {
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(READ_BYTES, end - at)), 0, undefined, at);
        if (bytesRead === 0) throw new Error(`the file of the picture ${name.sha256} is shorter than it was`);
        yield buffer.subarray(0, bytesRead);
        at += bytesRead;
      }
    } finally {
      await file.close();
    }
  }

  /** Removes the files of a content, and the folders that are empty then. */
  async remove(name: ContentName): Promise<void> {
    await this.disk.remove(...VARIANTS.map((variant) => this.fileOf(name, variant)));
    await this.disk.removeIfEmpty(this.folderOf(name));
  }

  /** Whether a content was last written before `time` (Unix milliseconds), or is not there any more. */
  async isOlder(name: ContentName, time: number): Promise<boolean> {
    const facts = await Promise.all(VARIANTS.map(async (variant) => await this.disk.stat(this.fileOf(name, variant))));
    return facts.every((one) => one === undefined || one.mtimeMs < time);
  }

  /** All contents that there are, some at a time. */
  async *contents(): AsyncGenerator<SomeContents> {
    for (const organizationId of await this.disk.names(this.root)) {
      if (organizationId !== INCOMING && organizationId !== TRASH) yield* this.contentsOf(this.root, organizationId);
    }
  }

  /** Moves the files of a content to the trash of a day (`2026-01-31`). */
  async throwAway(name: ContentName, day: string): Promise<void> {
    const to = join(this.trash, day);
    for (const variant of VARIANTS) {
      const file = this.fileOf(name, variant);
      if (await this.disk.stat(file)) await this.disk.move(file, this.fileOf(name, variant, to));
    }
    await this.settle(this.folderOf(name, to));
    await this.disk.removeIfEmpty(this.folderOf(name));
  }

  /** The days of which there is trash. */
  async trashDays(): Promise<readonly string[]> {
    return (await this.disk.names(this.trash)).filter((name) => DAY.test(name));
  }

  /** The contents in the trash of a day, some at a time. */
  async *trashed(day: string): AsyncGenerator<SomeContents> {
    for (const organizationId of await this.disk.names(join(this.trash, day))) yield* this.contentsOf(join(this.trash, day), organizationId);
  }

  /** Takes a content out of the trash of a day again, where its place is empty. */
  async takeBack(name: ContentName, day: string): Promise<void> {
    for (const variant of VARIANTS) {
      const [file, thrownAway] = [this.fileOf(name, variant), this.fileOf(name, variant, join(this.trash, day))];
      if (!(await this.disk.stat(file)) && (await this.disk.stat(thrownAway))) await this.disk.move(thrownAway, file);
    }
    await this.settle(this.folderOf(name));
    await this.disk.remove(...VARIANTS.map((variant) => this.fileOf(name, variant, join(this.trash, day))));
  }

  /** Removes the trash of a day. */
  async removeTrash(day: string): Promise<void> {
    await this.disk.removeFolder(join(this.trash, day));
  }

  /** Removes all that there is of an organization. */
  async removeOrganization(organizationId: string): Promise<void> {
    await this.disk.removeFolder(join(this.root, organizationId));
    for (const day of await this.trashDays()) await this.disk.removeFolder(join(this.trash, day, organizationId));
  }

  private async settle(folder: string): Promise<void> {
    await this.disk.settle(folder, dirname(this.root));
  }

  private async isAny(): Promise<boolean> {
    for await (const _ of this.contents()) return true;
    return (await this.trashDays()).length > 0;
  }

  private async *contentsOf(root: string, organizationId: string): AsyncGenerator<SomeContents> {
    for (const digits of await this.disk.names(join(root, organizationId))) {
      const files = await this.disk.names(join(root, organizationId, digits));
      const hashes = new Set(files.map((file) => (file.endsWith(SMALL) ? file.slice(0, -SMALL.length) : file)));
      const known = [...hashes].filter((hash) => CONTENT_NAME.test(hash));
      for (let at = 0; at < known.length; at += AT_ONCE) yield { organizationId, hashes: known.slice(at, at + AT_ONCE) };
    }
  }

  private folderOf({ organizationId, sha256 }: ContentName, root = this.root): string {
    return join(root, organizationId, sha256.slice(0, 2));
  }

  private fileOf(name: ContentName, variant: Variant, root = this.root): string {
    return join(this.folderOf(name, root), variant === 'original' ? name.sha256 : `${name.sha256}${SMALL}`);
  }
}
