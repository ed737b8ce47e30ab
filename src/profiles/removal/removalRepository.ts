import type { Db } from '../../database';
import type { ProfileSource } from '../profile';

/** Which profiles: those of these ids, or those of a brand, of a source or of both. */
export interface ProfileSelection {
  readonly ids?: readonly string[] | undefined;
  readonly brandId?: string | undefined;
  readonly source?: ProfileSource | undefined;
}

/** How many there were. */
export interface Removed {
  readonly removed: number;
  /** Models and codecs that nothing uses any more. */
  readonly models: number;
  readonly codecs: number;
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

  /** Removes profiles, with the models and codecs that no other profile has; inside of a transaction. A foreign key refuses one that a device uses. */
  async remove(ids: readonly string[]): Promise<Removed> {
    const models = await this.lock('device_models', await this.named('device_model_id', ids));
    const codecs = await this.lock('device_codecs', await this.named('codec_id', ids));
    const removed = await this.db.knex('device_profiles').whereIn('id', [...ids]).delete();
    return { removed, models: await this.removeUnused('device_models', 'device_model_id', models), codecs: await this.removeUnused('device_codecs', 'codec_id', codecs) };
  }

  private async named(column: 'device_model_id' | 'codec_id', ids: readonly string[]): Promise<string[]> {
    const rows: { named: string }[] = await this.db.knex('device_profiles').whereIn('id', [...ids]).whereNotNull(column).distinct(`${column} as named`);
    return rows.map(({ named }) => named);
  }

  /** Two removals at once may each take one of the last two profiles: the second waits, and sees that it is the last. In the order in which imports write. */
  private async lock(table: string, ids: readonly string[]): Promise<string[]> {
    const rows: { id: string }[] = await this.db.dialect.lockForUpdate(this.db.knex(table).whereIn('id', [...ids]).orderBy('id').select('id'));
    return rows.map(({ id }) => id);
  }

  private async removeUnused(table: string, column: string, ids: readonly string[]): Promise<number> {
    return await this.db.knex(table).whereIn('id', [...ids]).whereNotExists((of) => void of.from('device_profiles as p').whereRaw(`p.${column} = ${table}.id`).select('p.id')).delete();
  }
}
