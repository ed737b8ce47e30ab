import type { Db } from '../../database';
import type { ProfileSource } from '../profile';

/** Selects profiles: by id, by brand, by source, or by brand and source. */
export interface ProfileSelection {
  readonly ids?: readonly string[] | undefined;
  readonly brandId?: string | undefined;
  readonly source?: ProfileSource | undefined;
}

/** The numbers of removed records. */
export interface Removed {
  readonly removed: number;
  /** Models that no profile uses any more. */
  readonly models: number;
  /** Codecs that no profile uses any more. */
  readonly codecs: number;
}

/**
 * Removes profiles, and the models and codecs that only they used. They belong to the installation, not to an
 * organization.
 */
export class RemovalRepository {
  constructor(private readonly db: Db) {}

  /** Returns which of the ids exist. */
  async findExisting(ids: readonly string[]): Promise<Set<string>> {
    const rows: { id: string }[] = await this.db
      .knex('device_profiles')
      .whereIn('id', [...ids])
      .select('id');
    return new Set(rows.map(({ id }) => id));
  }

  /** Lists at most `limit` profile ids of a brand, of a source or of both, in order, after an id. */
  async listIds({ brandId, source }: Omit<ProfileSelection, 'ids'>, after: string, limit: number): Promise<string[]> {
    const query = this.db
      .knex('device_profiles as p')
      .join('device_models as m', 'm.id', 'p.device_model_id')
      .where('p.id', '>', after)
      .orderBy('p.id')
      .limit(limit);
    if (brandId !== undefined) query.where('m.brand_id', brandId);
    if (source !== undefined) query.where('m.source', source);
    return (await query.select<{ id: string }[]>('p.id')).map(({ id }) => id);
  }

  /**
   * Removes profiles, and the models and codecs that no other profile uses. Must run in a transaction. A foreign key
   * rejects the removal of a profile that a device uses.
   */
  async remove(ids: readonly string[]): Promise<Removed> {
    const models = await this.lock('device_models', await this.findReferenced('device_model_id', ids));
    const codecs = await this.lock('device_codecs', await this.findReferenced('codec_id', ids));
    const removed = await this.db
      .knex('device_profiles')
      .whereIn('id', [...ids])
      .delete();
    return {
      removed,
      models: await this.removeUnused('device_models', 'device_model_id', models),
      codecs: await this.removeUnused('device_codecs', 'codec_id', codecs),
    };
  }

  /** Returns the ids of the models, or of the codecs, of profiles. */
  private async findReferenced(column: 'device_model_id' | 'codec_id', ids: readonly string[]): Promise<string[]> {
    const rows: { referenced_id: string }[] = await this.db
      .knex('device_profiles')
      .whereIn('id', [...ids])
      .whereNotNull(column)
      .distinct(`${column} as referenced_id`);
    return rows.map(({ referenced_id: id }) => id);
  }

  /**
   * Locks rows in the order of their ids, which is also the order in which imports write. Without the lock, two
   * concurrent removals of the last two profiles of a model would both keep the model.
   */
  private async lock(table: string, ids: readonly string[]): Promise<string[]> {
    const rows: { id: string }[] = await this.db.dialect.lockForUpdate(
      this.db
        .knex(table)
        .whereIn('id', [...ids])
        .orderBy('id')
        .select('id'),
    );
    return rows.map(({ id }) => id);
  }

  /** Deletes those of the rows that no profile references. Returns their number. */
  private async removeUnused(table: string, column: string, ids: readonly string[]): Promise<number> {
    return await this.db
      .knex(table)
      .whereIn('id', [...ids])
      .whereNotExists(
        (query) => void query.from('device_profiles as p').whereRaw(`p.${column} = ${table}.id`).select('p.id'),
      )
      .delete();
  }
}
