import type { Db } from '../database';
import type { ContentName } from './mediaFiles';

/** A picture by its id and its content. */
export type NamedPicture = ContentName & { readonly id: string };

/** The pictures of an organization that goes. */
export class MediaRemovalRepository {
  constructor(private readonly db: Db) {}

  /** At most `limit` of them. */
  async some(organizationId: string, limit: number): Promise<NamedPicture[]> {
    const rows: { id: string; sha256: string }[] = await this.db.knex('media as m').where('m.organization_id', organizationId).limit(limit).select('m.id', 'm.sha256');
    return rows.map(({ id, sha256 }) => ({ organizationId, id, sha256 }));
  }

  /** Removes one, and shows it nowhere any more. Only inside a transaction. */
  async remove({ organizationId, id }: NamedPicture): Promise<void> {
    await this.db.knex('device_images').where('media_id', id).where('organization_id', organizationId).delete();
    await this.db.knex('media').where('id', id).where('organization_id', organizationId).delete();
  }
}
