import type { Db } from '../database';
import { DomainError } from '../kernel/errors';
import type { DeviceReach } from '../kernel/reach';
import { mediaNotFound, type Media } from './media';
import { PictureReachRepository } from './pictureReachRepository';

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

/** A picture that is to be removed. */
export interface UnusedMedia {
  readonly id: string;
  readonly organizationId: string;
  readonly unusedSince: number;
}

/** What is known of pictures; their bytes are files. Assumes validated input and a caller allowed to act in `organizationId`. */
export class MediaRepository {
  constructor(private readonly db: Db) {}

  /** Throws `organization_not_found` if it was deleted meanwhile. */
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
      throw this.db.dialect.isForeignKeyViolation(error) ? organizationGone(media.organizationId) : error;
    }
  }

  /** Of the devices that show it those inside `reach` are counted. Throws `media_not_found`. */
  async get(organizationId: string, id: string, reach?: DeviceReach): Promise<Media> {
    const uses = this.db.knex('device_images as i').where('i.media_id', this.db.knex.ref('m.id')).count().as('device_count');
    const deleted = this.db.knex('organizations as o').where('o.id', organizationId).whereNotNull('o.deleted_at'); // links need no key: they end with it
    const row = await this.one(organizationId, id).whereNotExists(deleted).first<MediaRow | undefined>('m.*', uses);
    if (!row) throw mediaNotFound(id);
    return mediaFromRow(reach ? { ...row, device_count: (await this.showing(organizationId, reach, [id])).get(id) ?? 0 } : row);
  }

  /** The first of these pictures that is not there, or that devices show of which none is inside the reach of a limited key; undefined: none. */
  async outside(organizationId: string, reach: DeviceReach, ids: readonly string[]): Promise<string | undefined> {
    const there = new Set(await this.of(organizationId).whereIn('m.id', [...ids]).pluck<string[]>('m.id'));
    const showing = await this.showing(organizationId, reach, ids);
    return ids.find((id) => !there.has(id) || showing.get(id) === 0);
  }

  /** The picture, which nobody gives to a device or takes from one until the end of the transaction. Throws `media_not_found`. */
  async lock(organizationId: string, id: string): Promise<Media> {
    await this.db.dialect.lockForUpdate(this.one(organizationId, id).select('m.id'));
    return await this.get(organizationId, id); // counts the devices only now that nobody adds one
  }

  /** Forgets a picture that is locked and that no device shows. */
  async delete(organizationId: string, id: string): Promise<void> {
    await this.one(organizationId, id).delete();
  }

  /** Which of these contents the organization has pictures of. */
  async contents(organizationId: string, hashes: readonly string[]): Promise<ReadonlySet<string>> {
    const rows: { sha256: string }[] = await this.of(organizationId).whereIn('m.sha256', hashes).distinct('m.sha256');
    return new Set(rows.map(({ sha256 }) => sha256));
  }

  /** One of the organization's pictures with this content. */
  async sameContent(organizationId: string, sha256: string): Promise<Media | undefined> {
    const row = await this.of(organizationId).where('m.sha256', sha256).first<MediaRow | undefined>('m.*');
    return row && mediaFromRow({ ...row, device_count: 0 });
  }

  /** All pictures with this content have this one's small picture from now on. */
  async replaceThumbnail({ organizationId, sha256, thumbnailBytes }: Media): Promise<void> {
    await this.of(organizationId).where('m.sha256', sha256).update({ thumbnail_bytes: thumbnailBytes });
  }

  /** Of all organizations: those that no device has shown since `time` or longer, the longest first, behind `after`. */
  async unusedSince(time: number, after: UnusedMedia | undefined, limit: number): Promise<readonly UnusedMedia[]> {
    const query = this.db.knex('media as m').where('m.unused_since', '<=', time);
    if (after) void query.whereRaw('(m.unused_since, m.id) > (?, ?)', [after.unusedSince, after.id]);
    const rows: Pick<MediaRow, 'id' | 'organization_id' | 'unused_since'>[] = await query.orderBy(['m.unused_since', 'm.id']).limit(limit).select('m.id', 'm.organization_id', 'm.unused_since');
    return rows.map((row) => ({ id: row.id, organizationId: row.organization_id, unusedSince: Number(row.unused_since) }));
  }

  private async showing(organizationId: string, reach: DeviceReach, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return await new PictureReachRepository(this.db).showing(organizationId, reach, ids);
  }

  private one(organizationId: string, id: string) {
    return this.of(organizationId).where('m.id', id);
  }

  private of(organizationId: string) {
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

function organizationGone(id: string): DomainError {
  return new DomainError('not_found', 'organization_not_found', `organization ${JSON.stringify(id)} was deleted meanwhile`, { metadata: { organization_id: id } });
}
