import type { Db, PreparedStatement } from '../../database';
import type { CodecExamples, CodecFile, CodecRole, CodecScripts, ProfileSource } from '../profile';
import { scriptsFromColumn } from './storedScripts';

/** A stored codec. */
export interface DeviceCodec {
  readonly id: string;
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly name: string;
  readonly scripts: CodecScripts;
  readonly examples: readonly CodecExamples[];
}

/** A brand of one of the repositories, with the number of its imported codecs. */
export interface CodecBrand {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly codecCount: number;
}

interface CodecRow {
  readonly id: string;
  readonly source: ProfileSource;
  readonly brand_id: string;
  readonly name: string;
  readonly scripts: string;
  readonly examples: string;
}

/** The statements that run for commands and uplinks. */
const codecStatements = {
  scripts: { name: 'codecs.scripts', sql: () => 'select c.scripts from device_codecs c where c.id = ?' },
  scriptsOfProfile: {
    name: 'codecs.scripts_of_profile',
    sql: () => 'select c.scripts from device_profiles p left join device_codecs c on c.id = p.codec_id where p.id = ?',
  },
} as const satisfies Record<string, PreparedStatement>;

/** Reads the codecs of profiles. Like profiles, they belong to the installation, not to an organization. */
export class CodecRepository {
  constructor(private readonly db: Db) {}

  /** Finds the file of a codec for a role; undefined if the codec was removed or has no file for this role. */
  async findScript(codecId: string, role: CodecRole): Promise<CodecFile | undefined> {
    const [row] = await this.db.all<{ scripts: string }>(codecStatements.scripts, [codecId]);
    return row && scriptsFromColumn(row.scripts)[role];
  }

  /**
   * Finds the file of a profile's codec for a role. `undefined`: there is no such profile; `null`: it has no such file.
   */
  async findScriptOfProfile(profileId: string, role: CodecRole): Promise<CodecFile | null | undefined> {
    const [row] = await this.db.all<{ scripts: string | null }>(codecStatements.scriptsOfProfile, [profileId]);
    if (!row) return undefined;
    return (row.scripts !== null && scriptsFromColumn(row.scripts)[role]) || null;
  }

  /** Lists at most `limit` codecs in the order of their ids, starting after the id `after`. */
  async list(after: string, limit: number, brandId?: string): Promise<DeviceCodec[]> {
    const query = this.db.knex('device_codecs').where('id', '>', after).orderBy('id').limit(limit);
    if (brandId !== undefined) void query.where('brand_id', brandId);
    const rows = await query.select<CodecRow[]>('id', 'source', 'brand_id', 'name', 'scripts', 'examples');
    return rows.map(codecFromRow);
  }

  /** Lists the brands that have codecs, once for each source, in the order of their ids. */
  async listBrands(): Promise<CodecBrand[]> {
    const { knex } = this.db;
    const rows = await knex('device_codecs')
      .groupBy('brand_id', 'source')
      .orderBy(['brand_id', 'source'])
      .select<{ source: ProfileSource; brand_id: string; codec_count: number | string }[]>(
        'source',
        'brand_id',
        knex.raw('count(*) as codec_count'),
      );
    return rows.map((row) => ({ source: row.source, brandId: row.brand_id, codecCount: Number(row.codec_count) }));
  }
}

function codecFromRow({ id, source, brand_id: brandId, name, scripts, examples }: CodecRow): DeviceCodec {
  return {
    id,
    source,
    brandId,
    name,
    scripts: scriptsFromColumn(scripts),
    examples: JSON.parse(examples) as CodecExamples[],
  };
}
