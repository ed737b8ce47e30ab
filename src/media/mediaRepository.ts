import type { Db } from '../database';
import { DomainError } from '../kernel/errors';
import type { DeviceScope } from '../kernel/resourceScope';
import { mediaNotFound, type Media } from './media';
import { MediaScopeRepository } from './mediaScopeRepository';

interface MediaRow {
  readonly id: string;
  readonly organization_id: string;
  readonly sha256: string;
  readonly filename: string;
  readonly content_type: string;
  readonly size_bytes: number;
  readonly thumbnail_bytes: number;
  readonly width: number;
  readonly height: number;
  readonly created_at: number;
  readonly unused_since: number | null;
  readonly device_count: number | string;
}

/** An image to remove. */
export interface UnusedMedia {
  readonly id: string;
  readonly organizationId: string;
  readonly unusedSince: number;
}

/**
 * The image records; the bytes are in files. Assumes validated input and a caller allowed to act in `organizationId`.
 */
export class MediaRepository {
  constructor(private readonly db: Db) {}

  /** Stores a new image. Throws `organization_not_found` if the organization was deleted concurrently. */
  async create(media: Media): Promise<void> {
    const row = {
      id: media.id,
      organization_id: media.organizationId,
      sha256: media.sha256,
      filename: media.filename,
      content_type: media.contentType,
      size_bytes: media.sizeBytes,
      thumbnail_bytes: media.thumbnailBytes,
      width: media.width,
      height: media.height,
      created_at: media.createdAt,
      unused_since: media.unusedSince ?? null,
    };
    try {
      await this.db.knex('media').insert(row);
    } catch (error) {
      throw this.db.dialect.isForeignKeyViolation(error) ? organizationDeleted(media.organizationId) : error;
    }
  }

  /** Counts only the devices inside `deviceScope`. Throws `media_not_found`. */
  async get(organizationId: string, id: string, deviceScope?: DeviceScope): Promise<Media> {
    const uses = this.db
      .knex('device_images as i')
      .where('i.media_id', this.db.knex.ref('m.id'))
      .count()
      .as('device_count');
    // Links need no key, so the images of a deleted organization must not be found.
    const deletedOrganization = this.db
      .knex('organizations as o')
      .where('o.id', organizationId)
      .whereNotNull('o.deleted_at');
    const row = await this.queryOne(organizationId, id)
      .whereNotExists(deletedOrganization)
      .first<MediaRow | undefined>('m.*', uses);
    if (!row) throw mediaNotFound(id);
    return mediaFromRow(
      deviceScope
        ? { ...row, device_count: (await this.countDevicesInScope(organizationId, deviceScope, [id])).get(id) ?? 0 }
        : row,
    );
  }

  /**
   * Returns the first of these images that does not exist, or that is shown only on devices outside the scope of a
   * restricted key; undefined: all are visible.
   */
  async findOutOfScope(
    organizationId: string,
    deviceScope: DeviceScope,
    ids: readonly string[],
  ): Promise<string | undefined> {
    const existingIds = new Set(
      await this.queryOrganization(organizationId)
        .whereIn('m.id', [...ids])
        .pluck<string[]>('m.id'),
    );
    const deviceCountById = await this.countDevicesInScope(organizationId, deviceScope, ids);
    // 0: only devices outside the scope show the image. An image that no device shows is absent and visible.
    return ids.find((id) => !existingIds.has(id) || deviceCountById.get(id) === 0);
  }

  /**
   * Locks the image until the end of the transaction, so that no device adds or removes it. Throws `media_not_found`.
   */
  async lock(organizationId: string, id: string): Promise<Media> {
    await this.db.dialect.lockForUpdate(this.queryOne(organizationId, id).select('m.id'));
    return await this.get(organizationId, id); // counts the devices after the lock, so that none is added later
  }

  /** Deletes the record of a locked image that no device shows. */
  async delete(organizationId: string, id: string): Promise<void> {
    await this.queryOne(organizationId, id).delete();
  }

  /** Returns those of the hashes of which the organization has images. */
  async findReferencedHashes(organizationId: string, hashes: readonly string[]): Promise<ReadonlySet<string>> {
    const rows: { sha256: string }[] = await this.queryOrganization(organizationId)
      .whereIn('m.sha256', hashes)
      .distinct('m.sha256');
    return new Set(rows.map(({ sha256 }) => sha256));
  }

  /** Returns one of the organization's images with this content. Its devices are not counted: `deviceCount` is 0. */
  async findByContent(organizationId: string, sha256: string): Promise<Media | undefined> {
    const row = await this.queryOrganization(organizationId)
      .where('m.sha256', sha256)
      .first<MediaRow | undefined>('m.*');
    return row && mediaFromRow({ ...row, device_count: 0 });
  }

  /** Sets the thumbnail of all images with this content. */
  async replaceThumbnail({ organizationId, sha256, thumbnailBytes }: Media): Promise<void> {
    await this.queryOrganization(organizationId).where('m.sha256', sha256).update({ thumbnail_bytes: thumbnailBytes });
  }

  /**
   * Lists the images of all organizations that no device has shown since `time`, the longest unused first, after the
   * position `after`.
   */
  async listUnused(time: number, after: UnusedMedia | undefined, limit: number): Promise<readonly UnusedMedia[]> {
    const query = this.db.knex('media as m').where('m.unused_since', '<=', time);
    if (after) void query.whereRaw('(m.unused_since, m.id) > (?, ?)', [after.unusedSince, after.id]);
    const rows: Pick<MediaRow, 'id' | 'organization_id' | 'unused_since'>[] = await query
      .orderBy(['m.unused_since', 'm.id'])
      .limit(limit)
      .select('m.id', 'm.organization_id', 'm.unused_since');
    return rows.map((row) => ({
      id: row.id,
      organizationId: row.organization_id,
      unusedSince: Number(row.unused_since),
    }));
  }

  private async countDevicesInScope(
    organizationId: string,
    deviceScope: DeviceScope,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, number>> {
    return await new MediaScopeRepository(this.db).countDevicesInScope(organizationId, deviceScope, ids);
  }

  private queryOne(organizationId: string, id: string) {
    return this.queryOrganization(organizationId).where('m.id', id);
  }

  private queryOrganization(organizationId: string) {
    return this.db.knex('media as m').where('m.organization_id', organizationId);
  }
}

function mediaFromRow(row: MediaRow): Media {
  return {
    id: row.id,
    organizationId: row.organization_id,
    sha256: row.sha256,
    filename: row.filename,
    contentType: row.content_type,
    sizeBytes: row.size_bytes,
    thumbnailBytes: row.thumbnail_bytes,
    width: row.width,
    height: row.height,
    createdAt: row.created_at,
    unusedSince: row.unused_since ?? undefined,
    deviceCount: Number(row.device_count),
  };
}

/** Creates the error for an organization that was deleted while an image was added. */
function organizationDeleted(id: string): DomainError {
  return new DomainError(
    'not_found',
    'organization_not_found',
    `organization ${JSON.stringify(id)} was deleted during the request`,
    { metadata: { organization_id: id } },
  );
}
