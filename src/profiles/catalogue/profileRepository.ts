import type { Db, PreparedStatement } from '../../database';
import { bundleCodec } from '../codecs/bundleCodec';
import { scriptsFromColumn } from '../codecs/storedScripts';
import type { ProfileRow } from '../import/vendorRows';
import type { ProfileSource } from '../profile';
import type { ProfileTemplate } from './catalogue';

/** A profile whose model matches the requested brand and model, with the fields that select the best one. */
export interface Candidate {
  readonly id: string;
  readonly region: string;
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
  /** 0: brand and model were given as ids. Higher values are less exact matches. */
  readonly rank: number;
}

interface CandidateRow {
  readonly id: string;
  readonly region: string;
  readonly firmware_version: string;
  readonly hardware_versions: string;
  readonly rank: number;
}

/** A profile joined with its model and its codec. */
interface JoinedProfileRow extends ProfileRow {
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

const FROM_SPELLINGS =
  'from device_model_spellings s join device_profiles p on p.device_model_id = s.device_model_id where s.brand = ? and s.model = ?';

/** The statements of a look-up. The codec is only read for the profile that is returned. */
const profileStatements = {
  candidates: {
    name: 'profiles.candidates',
    sql: () => `select p.id, p.region, p.firmware_version, p.hardware_versions, s.rank ${FROM_SPELLINGS}`,
  },
  whole: {
    name: 'profiles.whole',
    sql: () =>
      `select p.*, m.source, m.brand_id, m.brand_name, m.model_id, m.model_name, m.description, c.scripts
       from device_profiles p join device_models m on m.id = p.device_model_id left join device_codecs c on c.id = p.codec_id where p.id = ?`,
  },
} as const satisfies Record<string, PreparedStatement>;

/** Reads single profiles. Profiles belong to the installation, not to an organization. */
export class ProfileRepository {
  constructor(private readonly db: Db) {}

  /**
   * Lists the profiles of all models with this brand and model, in no particular order. Both are a name or an id,
   * normalized by `foldName`.
   */
  async listCandidates(foldedBrand: string, foldedModel: string): Promise<Candidate[]> {
    const rows = await this.db.all<CandidateRow>(profileStatements.candidates, [foldedBrand, foldedModel]);
    return rows.map((row) => ({
      id: row.id,
      region: row.region,
      firmwareVersion: row.firmware_version,
      hardwareVersions: JSON.parse(row.hardware_versions) as string[],
      rank: row.rank,
    }));
  }

  /** Finds a profile with its codec. */
  async find(id: string): Promise<ProfileTemplate | undefined> {
    const [row] = await this.db.all<JoinedProfileRow>(profileStatements.whole, [id]);
    return row && templateFromRow(row);
  }
}

function templateFromRow(row: JoinedProfileRow): ProfileTemplate {
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
    codec: row.scripts === null ? '' : bundleCodec(scriptsFromColumn(row.scripts)),
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
