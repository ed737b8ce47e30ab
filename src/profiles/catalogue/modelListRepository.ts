import type { Db } from '../../database';
import type { CodecRuntime, ProfileSource } from '../profile';

/** Which models to list; what is undefined or empty lets all through. */
export interface ModelFilter {
  /** Texts each of which is in an id or a name of the model or its brand, folded. */
  readonly words: readonly string[];
  /** What the brand is called, folded. */
  readonly brand: string;
  /** What the model is called, folded. */
  readonly model: string;
  /** Regions, of one of which a profile must be. */
  readonly regions: readonly string[] | undefined;
}

/** A place in the list; also the order of it. */
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
  /** Null: it has no codec. */
  readonly decodes_uplinks: number | null;
  readonly encodes_downlinks: number | null;
}

const ORDER = ['m.brand_folded', 'm.model_folded', 'm.id'];

/** Lists of models, by brand and name. They belong to the installation: no organization stands before them. */
export class ModelListRepository {
  constructor(private readonly db: Db) {}

  /** `limit` models behind a position. */
  async page(filter: ModelFilter, after: ModelPosition | undefined, limit: number): Promise<ModelRow[]> {
    const order = ORDER.map((column) => this.db.dialect.byBytes(column)).join(', ');
    const models = this.fitting(filter).select<ModelRow[]>('m.*').orderByRaw(order).limit(limit);
    if (after) void models.whereRaw(`(${order}) > (?, ?, ?)`, [after.brandFolded, after.modelFolded, after.id]);
    return await models;
  }

  /** How many models fit. */
  async total(filter: ModelFilter): Promise<number> {
    const [row] = await this.fitting(filter).count<{ total: number }[]>({ total: '*' });
    return row?.total ?? 0;
  }

  /** How many profiles some models have, by their ids; those without any are left out. */
  async profileCounts(modelIds: readonly string[], regions: readonly string[] | undefined): Promise<Map<string, number>> {
    const counts = this.db.knex('device_profiles as p').whereIn('p.device_model_id', modelIds).groupBy('p.device_model_id');
    if (regions) void counts.whereIn('p.region', regions);
    const rows = await counts.select('p.device_model_id').count<{ device_model_id: string; profiles: number }[]>({ profiles: '*' });
    return new Map(rows.map(({ device_model_id: id, profiles }) => [id, profiles]));
  }

  /** The profiles of some models. */
  async profilesOf(modelIds: readonly string[], regions: readonly string[] | undefined): Promise<ProfileOfModelRow[]> {
    const profiles = this.db.knex('device_profiles as p').leftJoin('device_codecs as c', 'c.id', 'p.codec_id').whereIn('p.device_model_id', modelIds);
    if (regions) void profiles.whereIn('p.region', regions);
    return await profiles.select<ProfileOfModelRow[]>(
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

  private fitting({ words, brand, model, regions }: ModelFilter) {
    const { knex } = this.db;
    const models = knex('device_models as m');
    const called = { ...(brand && { brand }), ...(model && { model }) };
    if (brand || model) void models.whereIn('m.id', knex('device_model_spellings').where(called).select('device_model_id'));
    for (const word of words) void models.whereRaw(String.raw`m.search_folded like ? escape '\'`, [holding(word)]);
    if (regions) void models.whereExists(knex('device_profiles as p').whereRaw('p.device_model_id = m.id').whereIn('p.region', regions).select('p.id'));
    return models;
  }
}

/** The pattern of texts that hold this one. */
function holding(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
}
