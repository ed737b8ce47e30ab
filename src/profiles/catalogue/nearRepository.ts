import type { Db, Dialect, HotStatement } from '../../database';

/** A model, by its ids. */
export interface NamedModel {
  readonly brandId: string;
  readonly modelId: string;
}

/** A model, by its ids and something that it is called, folded. */
export interface SpelledModel extends NamedModel {
  readonly spelled: string;
}

/** A brand, by an id and its folded name. */
export interface NamedBrand {
  readonly brandId: string;
  readonly folded: string;
}

/** So many are compared with what was asked for, at most. */
const MOST_COMPARED = 1000;

/** What is read only to say what is near. Each reads at most MOST_COMPARED rows in an order of its own, whatever was imported. */
export const nearStatements = {
  modelsFrom: { name: 'profiles.models_from', sql: () => spelledModels('>=', 'asc') },
  modelsBefore: { name: 'profiles.models_before', sql: () => spelledModels('<', 'desc') },
  modelsCalled: {
    name: 'profiles.models_called',
    sql: () => `select m.brand_id, m.model_id from device_model_spellings s join device_models m on m.id = s.device_model_id where s.model = ? order by s.device_model_id limit ${MOST_COMPARED}`,
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

/** What the models of a brand are called, on one side of a text in the order of the spellings. */
function spelledModels(side: '>=' | '<', order: 'asc' | 'desc'): string {
  return `select m.brand_id, m.model_id, s.model as spelled from device_model_spellings s join device_models m on m.id = s.device_model_id
    where s.brand = ? and s.model ${side} ? order by s.model ${order}, s.device_model_id ${order} limit ${MOST_COMPARED / 2}`;
}

function anyBrandOf(dialect: Dialect): string {
  const [folded, model, id] = ['m.brand_folded', 'm.model_folded', 'm.id'].map((column) => dialect.byBytes(column));
  return `(select m.brand_id from device_models m where ${folded} = b.folded order by ${folded}, ${model}, ${id} limit 1)`;
}

interface ModelRow {
  readonly brand_id: string;
  readonly model_id: string;
}

/** Reads what a look-up that found nothing may have meant. */
export class NearRepository {
  constructor(private readonly db: Db) {}

  /** Models of all brands that are called so, folded; of many those that stand around this one, folded, in the alphabet. None: no brand is called so. */
  async modelsAround(brand: string, model: string): Promise<SpelledModel[]> {
    const [from, before] = [await this.spelled(nearStatements.modelsFrom, brand, model), await this.spelled(nearStatements.modelsBefore, brand, model)];
    return [...from, ...before];
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

  private async spelled(statement: HotStatement, brand: string, model: string): Promise<SpelledModel[]> {
    const rows = await this.db.all<ModelRow & { spelled: string }>(statement, [brand, model]);
    return rows.map((row) => ({ ...modelFromRow(row), spelled: row.spelled }));
  }
}

function modelFromRow({ brand_id: brandId, model_id: modelId }: ModelRow): NamedModel {
  return { brandId, modelId };
}
