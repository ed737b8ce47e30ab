import { whereContains, type Db } from '../../database';
import type { CodecRuntime, ProfileSource } from '../profile';

/** Filters for the list of models. An undefined or empty filter matches all models. */
export interface ModelFilter {
  /** Folded words. Each must occur in an id or a name of the model or of its brand. */
  readonly words: readonly string[];
  /** A folded name of the brand (see foldName). */
  readonly brand: string;
  /** A folded name of the model. */
  readonly model: string;
  /** The model must have a profile for one of these regions. */
  readonly regions: readonly string[] | undefined;
}

/** A position in the list, which is ordered by these fields. */
export interface ModelPosition {
  readonly brandFolded: string;
  readonly modelFolded: string;
  readonly id: string;
}

/** A model without its profiles. */
export interface ModelRow {
  readonly id: string;
  readonly source: ProfileSource;
  readonly brand_id: string;
  readonly brand_name: string;
  readonly brand_folded: string;
  readonly model_id: string;
  readonly model_name: string;
  readonly model_folded: string;
  readonly description: string;
}

/** A profile of a model. */
export interface ProfileOfModelRow {
  readonly id: string;
  readonly device_model_id: string;
  readonly firmware_version: string;
  readonly hardware_versions: string;
  readonly region: string;
  readonly mac_version: string;
  readonly payload_codec_runtime: CodecRuntime;
  /** 1 or 0; null: the profile has no codec. */
  readonly decodes_uplinks: number | null;
  readonly encodes_downlinks: number | null;
}

const ORDER = ['m.brand_folded', 'm.model_folded', 'm.id'];

/** Lists models by brand and name. Models belong to the installation, not to an organization. */
export class ModelListRepository {
  constructor(private readonly db: Db) {}

  /** Lists at most `limit` models after a position. */
  async listPage(filter: ModelFilter, after: ModelPosition | undefined, limit: number): Promise<ModelRow[]> {
    const order = ORDER.map((column) => this.db.dialect.byBytes(column)).join(', ');
    const query = this.queryModels(filter).select<ModelRow[]>('m.*').orderByRaw(order).limit(limit);
    if (after) void query.whereRaw(`(${order}) > (?, ?, ?)`, [after.brandFolded, after.modelFolded, after.id]);
    return await query;
  }

  /** Counts the models that match. */
  async count(filter: ModelFilter): Promise<number> {
    const [row] = await this.queryModels(filter).count<{ total: number }[]>({ total: '*' });
    return row?.total ?? 0;
  }

  /** Counts the profiles of models, by model id. Models without profiles are absent. */
  async countProfiles(
    modelIds: readonly string[],
    regions: readonly string[] | undefined,
  ): Promise<Map<string, number>> {
    const query = this.db
      .knex('device_profiles as p')
      .whereIn('p.device_model_id', modelIds)
      .groupBy('p.device_model_id');
    if (regions) void query.whereIn('p.region', regions);
    const rows = await query
      .select('p.device_model_id')
      .count<{ device_model_id: string; profiles: number }[]>({ profiles: '*' });
    return new Map(rows.map(({ device_model_id: id, profiles }) => [id, profiles]));
  }

  /** Lists the profiles of models. */
  async listProfiles(
    modelIds: readonly string[],
    regions: readonly string[] | undefined,
  ): Promise<ProfileOfModelRow[]> {
    const query = this.db
      .knex('device_profiles as p')
      .leftJoin('device_codecs as c', 'c.id', 'p.codec_id')
      .whereIn('p.device_model_id', modelIds);
    if (regions) void query.whereIn('p.region', regions);
    return await query.select<ProfileOfModelRow[]>(
      'p.id',
      'p.device_model_id',
      'p.firmware_version',
      'p.hardware_versions',
      'p.region',
      'p.mac_version',
      'p.payload_codec_runtime',
      'c.decodes_uplinks',
      'c.encodes_downlinks',
    );
  }

  /**
   * Builds the query for the models that match the filters, as `m`. The table `device_model_spellings` has the names by
   * which a model is found.
   */
  private queryModels({ words, brand, model, regions }: ModelFilter) {
    const { knex } = this.db;
    const models = knex('device_models as m');
    const requestedNames = { ...(brand && { brand }), ...(model && { model }) };
    if (brand || model)
      void models.whereIn('m.id', knex('device_model_spellings').where(requestedNames).select('device_model_id'));
    for (const word of words) whereContains(models, 'm.search_folded', word);
    if (regions)
      void models.whereExists(
        knex('device_profiles as p').whereRaw('p.device_model_id = m.id').whereIn('p.region', regions).select('p.id'),
      );
    return models;
  }
}
