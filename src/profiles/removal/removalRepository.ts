import type { Db } from '../../database';
import type { ProfileSource } from '../profile';

/** Which profiles: those of these ids, or those of a brand, of a source or of both. */
export interface ProfileSelection {
  readonly ids?: readonly string[] | undefined;
  readonly brandId?: string | undefined;
  readonly source?: ProfileSource | undefined;
}

/** Removes profiles and what only they needed. They belong to the installation: no organization stands before them. */
export class RemovalRepository {
  constructor(private readonly db: Db) {}

  /** Those of the ids that are there. */
  async existing(ids: readonly string[]): Promise<Set<string>> {
    const rows: { id: string }[] = await this.db.knex('device_profiles').whereIn('id', [...ids]).select('id');
    return new Set(rows.map(({ id }) => id));
  }

  /** At most `limit` ids of a brand, of a source or of both, after an id, in order. */
  async select({ brandId, source }: Omit<ProfileSelection, 'ids'>, after: string, limit: number): Promise<string[]> {
    const query = this.db.knex('device_profiles as p').join('device_models as m', 'm.id', 'p.device_model_id').where('p.id', '>', after).orderBy('p.id').limit(limit);
    if (brandId !== undefined) query.where('m.brand_id', brandId);
    if (source !== undefined) query.where('m.source', source);
    return (await query.select<{ id: string }[]>('p.id')).map(({ id }) => id);
  }

  /** Removes profiles; tells how many there were. A foreign key refuses one that a device uses. */
  async removeProfiles(ids: readonly string[]): Promise<number> {
    return await this.db.knex('device_profiles').whereIn('id', [...ids]).delete();
  }

  /** Removes at most `limit` models without profiles, with their spellings; tells how many. */
  async removeUnusedModels(limit: number): Promise<number> {
    return await this.removeUnused('device_models', 'device_model_id', limit);
  }

  /** Removes at most `limit` codecs that no profile names; tells how many. */
  async removeUnusedCodecs(limit: number): Promise<number> {
    return await this.removeUnused('device_codecs', 'codec_id', limit);
  }

  private async removeUnused(table: string, column: string, limit: number): Promise<number> {
    const unused = this.db.knex(`${table} as t`).whereNotExists((of) => void of.from('device_profiles as p').whereRaw(`p.${column} = t.id`).select('p.id')).limit(limit).select('t.id');
    return await this.db.knex(table).whereIn('id', unused).delete();
  }
}
