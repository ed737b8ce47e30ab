import type { Db } from '../database';
import type { ContentName } from './mediaFiles';

/** The id and content of an image. */
export type StoredMedia = ContentName & { readonly id: string };

/** The images of an organization that is being deleted. */
export class MediaRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Lists at most `limit` images. */
  async listBatch(organizationId: string, limit: number): Promise<StoredMedia[]> {
    const rows: { id: string; sha256: string }[] = await this.db
      .knex('media as m')
      .where('m.organization_id', organizationId)
      .limit(limit)
      .select('m.id', 'm.sha256');
    return rows.map(({ id, sha256 }) => ({ organizationId, id, sha256 }));
  }

  /** Deletes an image and its uses on devices. Only inside a transaction. */
  async remove({ organizationId, id }: StoredMedia): Promise<void> {
    await this.db.knex('device_images').where('media_id', id).where('organization_id', organizationId).delete();
    await this.db.knex('media').where('id', id).where('organization_id', organizationId).delete();
  }
}
