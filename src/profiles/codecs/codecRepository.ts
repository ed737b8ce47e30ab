import type { Db, HotStatement } from '../../database';
import type { CodecExamples, CodecFile, CodecRole, CodecScripts, ProfileSource } from '../profile';
import { scriptsFromColumn } from './storedScripts';

/** A codec as it is stored. */
export interface DeviceCodec {
  readonly id: string;
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly name: string;
  readonly scripts: CodecScripts;
  readonly examples: readonly CodecExamples[];
}

/** A brand in one of the repositories, and how many codecs were imported of it. */
export interface CodecBrand {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly codecs: number;
}

interface CodecRow {
  readonly id: string;
  readonly source: ProfileSource;
  readonly brand_id: string;
  readonly name: string;
  readonly scripts: string;
  readonly examples: string;
}

/** The statements that commands and uplinks wait for. */
export const codecStatements = {
  scripts: { name: 'codecs.scripts', sql: () => 'select c.scripts from device_codecs c where c.id = ?' },
  scriptsOfProfile: { name: 'codecs.scripts_of_profile', sql: () => 'select c.scripts from device_profiles p left join device_codecs c on c.id = p.codec_id where p.id = ?' },
} as const satisfies Record<string, HotStatement>;

/** The codecs of profiles. They belong to the installation, as profiles do. */
export class CodecRepository {
  constructor(private readonly db: Db) {}

  /** The file of a codec that does this; undefined: the codec is gone or has none. */
  async findScript(codecId: string, role: CodecRole): Promise<CodecFile | undefined> {
    const [row] = await this.db.all<{ scripts: string }>(codecStatements.scripts, [codecId]);
    return row && scriptsFromColumn(row.scripts)[role];
  }

  /** Of a profile. `undefined`: there is no such profile; `null`: it has no such script. */
  async findScriptOfProfile(profileId: string, role: CodecRole): Promise<CodecFile | null | undefined> {
    const [row] = await this.db.all<{ scripts: string | null }>(codecStatements.scriptsOfProfile, [profileId]);
    if (!row) return undefined;
    return (row.scripts !== null && scriptsFromColumn(row.scripts)[role]) || null;
  }

  /** All codecs, some at a time by id, beginning behind `after`. */
  async list(after: string, limit: number, brandId?: string): Promise<DeviceCodec[]> {
    const codecs = this.db.knex('device_codecs').where('id', '>', after).orderBy('id').limit(limit);
    if (brandId !== undefined) void codecs.where('brand_id', brandId);
    const rows = await codecs.select<CodecRow[]>('id', 'source', 'brand_id', 'name', 'scripts', 'examples');
    return rows.map(codecFromRow);
  }

  /** The brands that have codecs, by their ids. */
  async listBrands(): Promise<CodecBrand[]> {
    const { knex } = this.db;
    const rows = await knex('device_codecs').groupBy('brand_id', 'source').orderBy(['brand_id', 'source']).select<{ source: ProfileSource; brand_id: string; codecs: number | string }[]>('source', 'brand_id', knex.raw('count(*) as codecs'));
    return rows.map(({ source, brand_id: brandId, codecs }) => ({ source, brandId, codecs: Number(codecs) }));
  }
}

function codecFromRow({ id, source, brand_id: brandId, name, scripts, examples }: CodecRow): DeviceCodec {
  return { id, source, brandId, name, scripts: scriptsFromColumn(scripts), examples: JSON.parse(examples) as CodecExamples[] };
}
