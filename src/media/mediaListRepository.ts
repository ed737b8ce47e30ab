import type { Db } from '../database';
import type { ContentName } from './mediaFiles';

const PAGE_SIZE = 500;

/**
 * The images of all organizations, for tasks of the whole installation. Also works with a database of an older schema
 * without images.
 */
export class MediaListRepository {
  constructor(private readonly db: Db) {}

  /** Lists the contents of all images in batches, each content once. */
  async *listContents(): AsyncGenerator<readonly ContentName[]> {
    if (!(await this.hasMedia())) return;
    let after: ContentName | undefined = { organizationId: '', sha256: '' }; // before the first content
    while (after) {
      const { organizationId, sha256 }: ContentName = after;
      const query = this.db
        .knex('media as m')
        .whereRaw('(m.organization_id, m.sha256) > (?, ?)', [organizationId, sha256])
        .orderBy(['m.organization_id', 'm.sha256']);
      const rows: { organization_id: string; sha256: string }[] = await query
        .limit(PAGE_SIZE)
        .distinct('m.organization_id', 'm.sha256');
      const page = rows.map((row): ContentName => ({ organizationId: row.organization_id, sha256: row.sha256 }));
      if (page.length > 0) yield page;
      after = page.length < PAGE_SIZE ? undefined : page.at(-1);
    }
  }

  /** Returns the total size of all images in bytes, including thumbnails. */
  async sumBytes(): Promise<number> {
    if (!(await this.hasMedia())) return 0;
    const row = await this.db
      .knex('media as m')
      .sum({ bytes: this.db.knex.raw('m.size_bytes + m.thumbnail_bytes') })
      .first<{ bytes: number | string | null } | undefined>();
    return Number(row?.bytes ?? 0);
  }

  private async hasMedia(): Promise<boolean> {
    return await this.db.knex.schema.hasTable('media');
  }
}
