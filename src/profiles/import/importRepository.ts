import type { Db, HotStatement, SqlValue } from '../../database';
import { PROFILE_SOURCES, type ProfileSource } from '../profile';
import type { Changes, StoredBrand, VendorChanges } from './vendorChanges';
import type { CodecRow, ModelRow, ProfileRow, SpellingRow } from './vendorRows';

interface StoredRow {
  readonly id: string;
  readonly hash: string;
}

interface StoredProfileRow extends StoredRow {
  readonly source: string;
  readonly codec_id: string | null;
}

/** Rows of one statement; each size is prepared once. */
const SIZES = [50, 5, 1];
const IDS_AT_ONCE = 500;
const TIMES = ['created_at', 'updated_at'];

const MODELS = table<ModelRow>('device_models', ['id', 'source', 'brand_id', 'brand_name', 'brand_folded', 'model_id', 'model_name', 'model_folded', 'search_folded', 'description', 'hash'], TIMES);
const CODECS = table<CodecRow>('device_codecs', ['id', 'source', 'brand_id', 'name', 'decodes_uplinks', 'encodes_downlinks', 'scripts', 'examples', 'hash'], TIMES);
const SPELLINGS = table<SpellingRow>('device_model_spellings', ['brand', 'model', 'device_model_id', 'rank'], []);
const PROFILES = table<ProfileRow>(
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
  TIMES,
);

/** Stores profiles, which belong to the installation: no organization stands before them. */
export class ImportRepository {
  constructor(private readonly db: Db) {}

  /** What is stored of a brand. */
  async read(source: ProfileSource, brandId: string): Promise<StoredBrand> {
    const models: StoredRow[] = await this.models(source, brandId);
    const codecs: StoredRow[] = await this.db.knex('device_codecs').where({ source, brand_id: brandId }).select('id', 'hash');
    const profiles: StoredProfileRow[] = await this.db
      .knex('device_profiles as p')
      .join('device_models as m', 'm.id', 'p.device_model_id')
      .whereIn('m.source', [...PROFILE_SOURCES])
      .where('m.brand_id', brandId)
      .select('p.id', 'p.hash', 'p.codec_id', 'm.source');
    const [own, others] = [profiles.filter((profile) => profile.source === source), profiles.filter((profile) => profile.source !== source)];
    const codecOf = new Map(own.flatMap(({ id, codec_id }) => (codec_id === null ? [] : [[id, codec_id]])));
    return { models: hashes(models), codecs: hashes(codecs), profiles: hashes(own), codecOf, others: new Map(others.map((profile) => [profile.id, profile.source])) };
  }

  /** As read, inside of a transaction: nobody else changes those models until its end. */
  async readToWrite(source: ProfileSource, brandId: string): Promise<StoredBrand> {
    await this.db.dialect.lockForUpdate(this.models(source, brandId));
    return await this.read(source, brandId);
  }

  /** The ids of the profiles of a source whose brands are none of these. */
  async profilesBeside(source: ProfileSource, brandIds: readonly string[]): Promise<string[]> {
    const known = new Set(brandIds);
    const rows: { id: string; brand_id: string }[] = await this.db.knex('device_profiles as p').join('device_models as m', 'm.id', 'p.device_model_id').where('m.source', source).orderBy('p.id').select('p.id', 'm.brand_id');
    return rows.filter((row) => !known.has(row.brand_id)).map(({ id }) => id);
  }

  /** Writes what differs. `at`: Unix milliseconds. A unique index refuses what another import stored meanwhile. */
  async write({ models, spellings, codecs, unusedCodecs, profiles }: VendorChanges, at: number): Promise<void> {
    await this.put(MODELS, models, at);
    await this.removeIn('device_model_spellings', 'device_model_id', models.changed.map(({ id }) => id));
    await this.insert(SPELLINGS.insert, spellings.map(SPELLINGS.values));
    await this.put(CODECS, codecs, at);
    await this.put(PROFILES, profiles, at);
    await this.removeIn('device_codecs', 'id', unusedCodecs);
  }

  private models(source: ProfileSource, brandId: string) {
    return this.db.knex('device_models').where({ source, brand_id: brandId }).orderBy('id').select('id', 'hash');
  }

  private async put<Row>({ insert, change, values }: Table<Row>, { created, changed }: Changes<Row>, at: number): Promise<void> {
    const withTimes = (row: Row): SqlValue[] => [...values(row), at, at];
    await this.insert(insert, created.map(withTimes));
    await this.insert(change, changed.map(withTimes));
  }

  private async insert(statement: Sized, rows: readonly (readonly SqlValue[])[]): Promise<void> {
    let at = 0;
    for (const size of SIZES) for (; rows.length - at >= size; at += size) await this.db.all(statement(size), rows.slice(at, at + size).flat());
  }

  private async removeIn(table: string, column: string, values: readonly string[]): Promise<void> {
    for (let at = 0; at < values.length; at += IDS_AT_ONCE) await this.db.knex(table).whereIn(column, values.slice(at, at + IDS_AT_ONCE)).delete();
  }
}

/** A statement for so many rows, one of SIZES. */
type Sized = (rows: number) => HotStatement;

interface Table<Row> {
  /** Fails for a row that is there. */
  readonly insert: Sized;
  /** Writes all but the id and the time of creation of rows that are there. */
  readonly change: Sized;
  readonly values: (row: Row) => SqlValue[];
}

function table<Row>(name: string, columns: readonly (keyof Row & string)[], times: readonly string[]): Table<Row> {
  const all = [...columns, ...times];
  const tuple = `(${all.map(() => '?').join(', ')})`;
  const insert = (rows: number): string => `insert into ${name} (${all.join(', ')}) values ${Array.from({ length: rows }, () => tuple).join(', ')}`;
  const kept = new Set(['id', 'created_at']);
  const set = all.filter((column) => !kept.has(column)).map((column) => `${column} = excluded.${column}`).join(', ');
  return {
    insert: sized(`profiles.insert.${name}`, insert),
    change: sized(`profiles.change.${name}`, (rows) => `${insert(rows)} on conflict (id) do update set ${set}`),
    values: (row) => columns.map((column) => row[column] as SqlValue),
  };
}

function sized(name: string, sql: (rows: number) => string): Sized {
  const made = new Map(SIZES.map((rows) => [rows, { name: `${name}.${rows}`, sql: () => sql(rows) }]));
  return (rows) => made.get(rows) as HotStatement;
}

const hashes = (rows: readonly StoredRow[]): Map<string, string> => new Map(rows.map(({ id, hash }) => [id, hash]));
