import type { Db } from '../database';
import type { ContentName } from './mediaFiles';

const PAGE = 500;

/** The pictures of all organizations, for what concerns the installation as a whole; also in a database of an older schema, which has none. */
export class PictureListRepository {
  constructor(private readonly db: Db) {}

  /** The contents that there are, each once, some at a time. */
  async *contents(): AsyncGenerator<readonly ContentName[]> {
    if (!(await this.hasPictures())) return;
    for (let last: ContentName | undefined = { organizationId: '', sha256: '' }; last; ) {
      const { organizationId, sha256 }: ContentName = last;
      const query = this.db.knex('media as m').whereRaw('(m.organization_id, m.sha256) > (?, ?)', [organizationId, sha256]).orderBy(['m.organization_id', 'm.sha256']);
      const rows: { organization_id: string; sha256: string }[] = await query.limit(PAGE).distinct('m.organization_id', 'm.sha256');
      const page = rows.map((row): ContentName => ({ organizationId: row.organization_id, sha256: row.sha256 }));
      if (page.length > 0) yield page;
      last = page.length < PAGE ? undefined : page.at(-1);
    }
  }

  /** How many bytes they have, with their small pictures. */
  async bytes(): Promise<number> {
    if (!(await this.hasPictures())) return 0;
    const row = await this.db.knex('media as m').sum({ bytes: this.db.knex.raw('m.size_bytes + m.thumbnail_bytes') }).first<{ bytes: number | string | null } | undefined>();
    return Number(row?.bytes ?? 0);
  }

  private async hasPictures(): Promise<boolean> {
    return await this.db.knex.schema.hasTable('media');
  }
}
