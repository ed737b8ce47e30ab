import type { Db } from '../../database';
import type { CodecExamples, CodecFile, CodecRole, CodecScripts, ProfileSource } from '../profile';

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

/** The codecs of profiles. They belong to the installation, as profiles do. */
export class CodecRepository {
  constructor(private readonly db: Db) {}

  /** The file of a codec that does this; undefined: the codec is gone or has none. */
  async findScript(codecId: string, role: CodecRole): Promise<CodecFile | undefined> {
    void this.db;
    void codecId;
    void role;
    return await Promise.resolve(undefined);
  }

  /** Of a profile. `undefined`: there is no such profile; `null`: it has no such script. */
  async findScriptOfProfile(profileId: string, role: CodecRole): Promise<CodecFile | null | undefined> {
    void profileId;
    void role;
    return await Promise.resolve(undefined);
  }

  /** All codecs, some at a time by id, beginning behind `after`. */
  async list(after: string, limit: number, brandId?: string): Promise<DeviceCodec[]> {
    void after;
    void limit;
    void brandId;
    return await Promise.resolve([]);
  }

  /** The brands that have codecs, by their ids. */
  async listBrands(): Promise<CodecBrand[]> {
    const { knex } = this.db;
    const rows = await knex('device_codecs').groupBy('brand_id', 'source').orderBy(['brand_id', 'source']).select<{ source: ProfileSource; brand_id: string; codecs: number | string }[]>('source', 'brand_id', knex.raw('count(*) as codecs'));
    return rows.map(({ source, brand_id: brandId, codecs }) => ({ source, brandId, codecs: Number(codecs) }));
  }
}
