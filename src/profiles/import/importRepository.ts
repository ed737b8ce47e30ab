import type { Db, PreparedStatement, SqlValue } from '../../database';
import { PROFILE_SOURCES, type ProfileSource } from '../profile';
import type { Changes, StoredBrand, VendorChanges } from './vendorChanges';
import type { CodecRow, ModelRow, ProfileRow, AliasRow } from './vendorRows';

interface StoredRow {
  readonly id: string;
  readonly hash: string;
}

interface StoredProfileRow extends StoredRow {
  readonly source: string;
  readonly codec_id: string | null;
}

/** Numbers of rows per statement. Each size is one prepared statement. */
const BATCH_SIZES = [50, 5, 1];
const ID_BATCH_SIZE = 500;
const TIME_COLUMNS = ['created_at', 'updated_at'];

const MODELS = defineTable<ModelRow>(
  'device_models',
  [
    'id',
    'source',
    'brand_id',
    'brand_name',
    'brand_folded',
    'model_id',
    'model_name',
    'model_folded',
    'search_folded',
    'description',
    'hash',
  ],
  TIME_COLUMNS,
);
const CODECS = defineTable<CodecRow>(
  'device_codecs',
  ['id', 'source', 'brand_id', 'name', 'decodes_uplinks', 'encodes_downlinks', 'scripts', 'examples', 'hash'],
  TIME_COLUMNS,
);
const ALIASES = defineTable<AliasRow>('device_model_spellings', ['brand', 'model', 'device_model_id', 'rank'], []);
const PROFILES = defineTable<ProfileRow>(
  'device_profiles',
  [
    'id',
    'device_model_id',
    'firmware_version',
    'hardware_versions',
    'region',
    'codec_id',
    'payload_codec_runtime',
    'mac_version',
    'reg_params_revision',
    'device_status_req_interval',
    'uplink_interval',
    'flush_queue_on_activate',
    'supports_class_b',
    'supports_class_c',
    'supports_otaa',
    'hash',
  ],
  TIME_COLUMNS,
);

/** Stores profiles. They belong to the installation, not to an organization. */
export class ImportRepository {
  constructor(private readonly db: Db) {}

  /** Reads the hashes of the stored records of a brand. */
  async read(source: ProfileSource, brandId: string): Promise<StoredBrand> {
    const models: StoredRow[] = await this.selectModels(source, brandId);
    const codecs: StoredRow[] = await this.db
      .knex('device_codecs')
      .where({ source, brand_id: brandId })
      .select('id', 'hash');
    const profiles: StoredProfileRow[] = await this.db
      .knex('device_profiles as p')
      .join('device_models as m', 'm.id', 'p.device_model_id')
      .whereIn('m.source', [...PROFILE_SOURCES])
      .where('m.brand_id', brandId)
      .select('p.id', 'p.hash', 'p.codec_id', 'm.source');
    const ofSource = profiles.filter((profile) => profile.source === source);
    const ofOtherSources = profiles.filter((profile) => profile.source !== source);
    const codecIdByProfile = new Map(
      ofSource.flatMap(({ id, codec_id }) => (codec_id === null ? [] : [[id, codec_id]])),
    );
    return {
      hashByModel: getHashes(models),
      hashByCodec: getHashes(codecs),
      hashByProfile: getHashes(ofSource),
      codecIdByProfile,
      otherSourceByProfile: new Map(ofOtherSources.map((profile) => [profile.id, profile.source])),
    };
  }

  /** Same as `read`, and locks the models until the end of the transaction. */
  async readForUpdate(source: ProfileSource, brandId: string): Promise<StoredBrand> {
    await this.db.dialect.lockForUpdate(this.selectModels(source, brandId));
    return await this.read(source, brandId);
  }

  /** Lists the ids of the profiles of a source whose brands are not in the list. */
  async listProfilesOfOtherBrands(source: ProfileSource, brandIds: readonly string[]): Promise<string[]> {
    const excludedBrandIds = new Set(brandIds);
    const rows: { id: string; brand_id: string }[] = await this.db
      .knex('device_profiles as p')
      .join('device_models as m', 'm.id', 'p.device_model_id')
      .where('m.source', source)
      .orderBy('p.id')
      .select('p.id', 'm.brand_id');
    return rows.filter((row) => !excludedBrandIds.has(row.brand_id)).map(({ id }) => id);
  }

  /**
   * Writes the changes. `writtenAt`: Unix milliseconds. A unique index rejects records that another import stored in
   * between.
   */
  async write({ models, aliases, codecs, unusedCodecs, profiles }: VendorChanges, writtenAt: number): Promise<void> {
    await this.upsert(MODELS, models, writtenAt);
    // All aliases of a changed model are replaced; a created one has none yet.
    await this.deleteRows(
      'device_model_spellings',
      'device_model_id',
      models.changed.map(({ id }) => id),
    );
    await this.runInBatches(ALIASES.insert, aliases.map(ALIASES.values));
    await this.upsert(CODECS, codecs, writtenAt);
    await this.upsert(PROFILES, profiles, writtenAt);
    await this.deleteRows('device_codecs', 'id', unusedCodecs);
  }

  private selectModels(source: ProfileSource, brandId: string) {
    return this.db.knex('device_models').where({ source, brand_id: brandId }).orderBy('id').select('id', 'hash');
  }

  /** Inserts the created rows and overwrites the changed rows. */
  private async upsert<Row>(
    { insert, update, values }: Table<Row>,
    { created, changed }: Changes<Row>,
    writtenAt: number,
  ): Promise<void> {
    // The values of TIME_COLUMNS follow; an update ignores that of created_at.
    const withTimes = (row: Row): SqlValue[] => [...values(row), writtenAt, writtenAt];
    await this.runInBatches(insert, created.map(withTimes));
    await this.runInBatches(update, changed.map(withTimes));
  }

  /** Runs the statement for all rows, in the largest batches that fit. */
  private async runInBatches(statement: StatementBySize, rows: readonly (readonly SqlValue[])[]): Promise<void> {
    let offset = 0;
    for (const size of BATCH_SIZES) {
      for (; rows.length - offset >= size; offset += size)
        await this.db.all(statement(size), rows.slice(offset, offset + size).flat());
    }
  }

  /** Deletes the rows with these values in the column, in batches. */
  private async deleteRows(table: string, column: string, values: readonly string[]): Promise<void> {
    for (let offset = 0; offset < values.length; offset += ID_BATCH_SIZE) {
      await this.db
        .knex(table)
        .whereIn(column, values.slice(offset, offset + ID_BATCH_SIZE))
        .delete();
    }
  }
}

/** Returns the statement for a number of rows, which is one of BATCH_SIZES. */
type StatementBySize = (rows: number) => PreparedStatement;

/** The statements that write the rows of a table. */
interface Table<Row> {
  /** Fails if a row exists. */
  readonly insert: StatementBySize;
  /** Overwrites existing rows, except for the id and the creation time. */
  readonly update: StatementBySize;
  readonly values: (row: Row) => SqlValue[];
}

/**
 * Creates the statements of a table. In an upsert, `excluded` is the row that could not be inserted. `times`: columns
 * that follow the columns of a row and receive the time.
 */
function defineTable<Row>(
  name: string,
  columns: readonly (keyof Row & string)[],
  times: readonly string[],
): Table<Row> {
  const allColumns = [...columns, ...times];
  const tuple = `(${allColumns.map(() => '?').join(', ')})`;
  const insert = (rows: number): string =>
    `insert into ${name} (${allColumns.join(', ')}) values ${Array.from({ length: rows }, () => tuple).join(', ')}`;
  const unchanged = new Set(['id', 'created_at']);
  const set = allColumns
    .filter((column) => !unchanged.has(column))
    .map((column) => `${column} = excluded.${column}`)
    .join(', ');
  return {
    insert: prepareSizes(`profiles.insert.${name}`, insert),
    update: prepareSizes(`profiles.change.${name}`, (rows) => `${insert(rows)} on conflict (id) do update set ${set}`),
    values: (row) => columns.map((column) => row[column] as SqlValue),
  };
}

/** Creates one prepared statement for each of BATCH_SIZES. */
function prepareSizes(name: string, sql: (rows: number) => string): StatementBySize {
  const statements = new Map(BATCH_SIZES.map((rows) => [rows, { name: `${name}.${rows}`, sql: () => sql(rows) }]));
  return (rows) => statements.get(rows) as PreparedStatement;
}

const getHashes = (rows: readonly StoredRow[]): Map<string, string> => new Map(rows.map(({ id, hash }) => [id, hash]));
