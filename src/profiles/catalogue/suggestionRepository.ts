import type { Db, Dialect, PreparedStatement } from '../../database';

/** The ids of a model. */
export interface NamedModel {
  readonly brandId: string;
  readonly modelId: string;
}

/** The ids of a model and one of its folded names. */
export interface AliasedModel extends NamedModel {
  readonly alias: string;
}

/** The id of a brand and its folded name. */
interface NamedBrand {
  readonly brandId: string;
  readonly folded: string;
}

/** The maximum number of candidates that are compared with a request. */
const MAX_CANDIDATES = 1000;

/**
 * Statements for suggestions in errors. Each reads at most MAX_CANDIDATES rows in a fixed order, whatever is imported.
 */
const suggestionStatements = {
  modelsFrom: { name: 'profiles.models_from', sql: () => buildModelsQuery('>=', 'asc') },
  modelsBefore: { name: 'profiles.models_before', sql: () => buildModelsQuery('<', 'desc') },
  modelsCalled: {
    name: 'profiles.models_called',
    sql: () =>
      `select m.brand_id, m.model_id from device_model_spellings s join device_models m on m.id = s.device_model_id where s.model = ? order by s.device_model_id limit ${MAX_CANDIDATES}`,
  },
  // Jumps from each brand name to the next one, because a brand has many models.
  brands: {
    name: 'profiles.brands',
    sql: (dialect) => {
      const folded = dialect.byBytes('m.brand_folded');
      const next = `(select min(${folded}) from device_models m where ${folded} > b.folded)`;
      const names = `select min(${folded}) as folded from device_models m union all select ${next} from b where b.folded is not null`;
      return `with recursive b as (${names}) select b.folded, ${buildBrandIdQuery(dialect)} as brand_id from b where b.folded is not null limit ${MAX_CANDIDATES}`;
    },
  },
} as const satisfies Record<string, PreparedStatement>;

/** Builds the query for the folded names of the models of a brand that sort before or after a text. */
function buildModelsQuery(comparison: '>=' | '<', order: 'asc' | 'desc'): string {
  return `select m.brand_id, m.model_id, s.model as alias from device_model_spellings s join device_models m on m.id = s.device_model_id
    where s.brand = ? and s.model ${comparison} ? order by s.model ${order}, s.device_model_id ${order} limit ${MAX_CANDIDATES / 2}`;
}

/** Builds the query for the id of a brand with the folded name `b.folded`: that of its first model. */
function buildBrandIdQuery(dialect: Dialect): string {
  const [folded, model, id] = ['m.brand_folded', 'm.model_folded', 'm.id'].map((column) => dialect.byBytes(column));
  return `(select m.brand_id from device_models m where ${folded} = b.folded order by ${folded}, ${model}, ${id} limit 1)`;
}

interface ModelRow {
  readonly brand_id: string;
  readonly model_id: string;
}

/** Finds candidates for suggestions after a look-up without a result. */
export class SuggestionRepository {
  constructor(private readonly db: Db) {}

  /**
   * Lists models of the brands with this folded name: up to MAX_CANDIDATES names that sort closest to the folded model
   * name. An empty list means that no brand has this name.
   */
  async findModelsNear(brand: string, model: string): Promise<AliasedModel[]> {
    const sameOrAfter = await this.queryModels(suggestionStatements.modelsFrom, brand, model);
    const before = await this.queryModels(suggestionStatements.modelsBefore, brand, model);
    return [...sameOrAfter, ...before];
  }

  /** Lists models of any brand with this folded name. */
  async findModelsByName(model: string): Promise<NamedModel[]> {
    return (await this.db.all<ModelRow>(suggestionStatements.modelsCalled, [model])).map(modelFromRow);
  }

  /** Lists brands in the order of their names. An empty list means that nothing is imported. */
  async listBrands(): Promise<NamedBrand[]> {
    const rows = await this.db.all<{ folded: string; brand_id: string }>(suggestionStatements.brands, []);
    return rows.map(({ folded, brand_id: brandId }) => ({ folded, brandId }));
  }

  /** Runs a statement that returns models with the alias that matched. */
  private async queryModels(statement: PreparedStatement, brand: string, model: string): Promise<AliasedModel[]> {
    const rows = await this.db.all<ModelRow & { alias: string }>(statement, [brand, model]);
    return rows.map((row) => ({ ...modelFromRow(row), alias: row.alias }));
  }
}

function modelFromRow({ brand_id: brandId, model_id: modelId }: ModelRow): NamedModel {
  return { brandId, modelId };
}
