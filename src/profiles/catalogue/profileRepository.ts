import type { Db, HotStatement } from '../../database';
import { joinedCodec } from '../codecs/joinedCodec';
import { scriptsFromColumn } from '../codecs/storedScripts';
import type { ProfileRow } from '../import/vendorRows';
import type { ProfileSource } from '../profile';
import type { ProfileTemplate } from './catalogue';

/** A profile that an asked brand and model may mean, with what tells which one is meant. */
export interface Candidate {
  readonly id: string;
  readonly region: string;
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
  /** 0: brand and model were given as ids; higher: less exact. */
  readonly rank: number;
}

interface CandidateRow {
  readonly id: string;
  readonly region: string;
  readonly firmware_version: string;
  readonly hardware_versions: string;
  readonly rank: number;
}

/** With what its model and its codec say. */
interface WholeRow extends ProfileRow {
  readonly source: ProfileSource;
  readonly brand_id: string;
  readonly brand_name: string;
  readonly model_id: string;
  readonly model_name: string;
  readonly description: string;
  readonly scripts: string | null;
  readonly created_at: number;
  readonly updated_at: number;
}

const CALLED = 'from device_model_spellings s join device_profiles p on p.device_model_id = s.device_model_id where s.brand = ? and s.model = ?';

/** The statements of a look-up. A codec is read for the one profile that is answered only. */
export const profileStatements = {
  candidates: { name: 'profiles.candidates', sql: () => `select p.id, p.region, p.firmware_version, p.hardware_versions, s.rank ${CALLED}` },
  whole: {
    name: 'profiles.whole',
    sql: () =>
      `select p.*, m.source, m.brand_id, m.brand_name, m.model_id, m.model_name, m.description, c.scripts
       from device_profiles p join device_models m on m.id = p.device_model_id left join device_codecs c on c.id = p.codec_id where p.id = ?`,
  },
} as const satisfies Record<string, HotStatement>;

/** Profiles one by one. They belong to the installation: no organization stands before them. */
export class ProfileRepository {
  constructor(private readonly db: Db) {}

  /** The profiles of all models that are called so, folded; in no order. */
  async candidates(brand: string, model: string): Promise<Candidate[]> {
    const rows = await this.db.all<CandidateRow>(profileStatements.candidates, [brand, model]);
    return rows.map((row) => ({ id: row.id, region: row.region, firmwareVersion: row.firmware_version, hardwareVersions: JSON.parse(row.hardware_versions) as string[], rank: row.rank }));
  }

  /** A profile with its codec. */
  async find(id: string): Promise<ProfileTemplate | undefined> {
    const [row] = await this.db.all<WholeRow>(profileStatements.whole, [id]);
    return row && templateFromRow(row);
  }
}

function templateFromRow(row: WholeRow): ProfileTemplate {
  return {
    id: row.id,
    source: row.source,
    brandId: row.brand_id,
    brandName: row.brand_name,
    modelId: row.model_id,
    modelName: row.model_name,
    description: row.description,
    firmwareVersion: row.firmware_version,
    hardwareVersions: JSON.parse(row.hardware_versions) as string[],
    payloadCodecRuntime: row.payload_codec_runtime,
    codecId: row.codec_id ?? undefined,
    codec: row.scripts === null ? '' : joinedCodec(scriptsFromColumn(row.scripts)),
    region: row.region,
    macVersion: row.mac_version,
    regParamsRevision: row.reg_params_revision,
    deviceStatusReqInterval: row.device_status_req_interval,
    uplinkInterval: row.uplink_interval,
    flushQueueOnActivate: row.flush_queue_on_activate === 1,
    supportsClassB: row.supports_class_b === 1,
    supportsClassC: row.supports_class_c === 1,
    supportsOtaa: row.supports_otaa === 1,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
