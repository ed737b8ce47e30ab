import type { Db, Dialect, HotStatement } from '../../database';

/** A model, by its ids and its names. */
export interface NamedModel {
  readonly brandId: string;
  readonly modelId: string;
  readonly modelName: string;
}

/** A brand, by an id and its folded name. */
export interface NamedBrand {
  readonly brandId: string;
  readonly folded: string;
}

/** So many are compared with what was asked for, at most. */
const MOST_COMPARED = 1000;

/** What is read only to say what is near. Each reads at most MOST_COMPARED rows, whatever was imported. */
export const nearStatements = {
  brandCalled: {
    name: 'profiles.brand_called',
    sql: () => 'select m.brand_id from device_model_spellings s join device_models m on m.id = s.device_model_id where s.brand = ? order by s.model, s.device_model_id limit 1',
  },
  modelsOfBrand: {
    name: 'profiles.models_of_brand',
    sql: () => `select m.brand_id, m.model_id, m.model_name from device_models m where m.source = ? and m.brand_id = ? limit ${MOST_COMPARED}`,
  },
  modelsCalled: {
    name: 'profiles.models_called',
    sql: () => `select m.brand_id, m.model_id, m.model_name from device_model_spellings s join device_models m on m.id = s.device_model_id where s.model = ? limit ${MOST_COMPARED}`,
  },
  // From each name to the next one, because a brand has many models.
  brands: {
    name: 'profiles.brands',
    sql: (dialect) => {
      const folded = dialect.byBytes('m.brand_folded');
      const next = `(select min(${folded}) from device_models m where ${folded} > b.folded)`;
      const names = `select min(${folded}) as folded from device_models m union all select ${next} from b where b.folded is not null`;
      return `with recursive b as (${names}) select b.folded, ${anyBrandOf(dialect)} as brand_id from b where b.folded is not null limit ${MOST_COMPARED}`;
    },
  },
} as const satisfies Record<string, HotStatement>;

function anyBrandOf(dialect: Dialect): string {
  const [folded, model, id] = ['m.brand_folded', 'm.model_folded', 'm.id'].map((column) => dialect.byBytes(column));
  return `(select m.brand_id from device_models m where ${folded} = b.folded order by ${folded}, ${model}, ${id} limit 1)`;
}

interface ModelRow {
  readonly brand_id: string;
  readonly model_id: string;
  readonly model_name: string;
}

/** Reads what a look-up that found nothing may have meant. */
export class NearRepository {
  constructor(private readonly db: Db) {}

  /** The id of a brand that is called so, folded. */
  async brandCalled(brand: string): Promise<string | undefined> {
    const [row] = await this.db.all<{ brand_id: string }>(nearStatements.brandCalled, [brand]);
    return row?.brand_id;
  }

  /** Models of a brand, of all sources. */
  async modelsOfBrand(sources: readonly string[], brandId: string): Promise<NamedModel[]> {
    const found: NamedModel[] = [];
    for (const source of sources) found.push(...(await this.db.all<ModelRow>(nearStatements.modelsOfBrand, [source, brandId])).map(modelFromRow));
    return found;
  }

  /** Models of any brand that are called so, folded. */
  async modelsCalled(model: string): Promise<NamedModel[]> {
    return (await this.db.all<ModelRow>(nearStatements.modelsCalled, [model])).map(modelFromRow);
  }

  /** Brands by their names; none: nothing was imported. */
  async brands(): Promise<NamedBrand[]> {
    const rows = await this.db.all<{ folded: string; brand_id: string }>(nearStatements.brands, []);
    return rows.map(({ folded, brand_id: brandId }) => ({ folded, brandId }));
  }
}

function modelFromRow({ brand_id: brandId, model_id: modelId, model_name: modelName }: ModelRow): NamedModel {
  return { brandId, modelId, modelName };
}
