import { hash } from 'node:crypto';
import { foldName } from '../../database';
import { cut } from '../../kernel/shortened';
import { type ScriptColumns, scriptsToColumns } from '../codecs/storedScripts';
import type { CodecRuntime, ProfileSource } from '../profile';
import { LONGEST_DESCRIPTION, LONGEST_NAME, type ReadCodec, type ReadModel, type ReadProfile, type ReadVendor, type Unread } from './readVendor';
import { spellingsOf } from './spellings';

/** A row of device_models, but for its times. */
export type ModelRow = Readonly<Record<'id' | 'source' | 'brand_id' | 'brand_name' | 'brand_folded' | 'model_id' | 'model_name' | 'model_folded' | 'search_folded' | 'description' | 'hash', string>>;

/** A row of device_model_spellings. */
export interface SpellingRow {
  readonly brand: string;
  readonly model: string;
  readonly device_model_id: string;
  readonly rank: number;
}

/** A row of device_codecs, but for its times. */
export type CodecRow = Readonly<Record<'id' | 'source' | 'brand_id' | 'name' | 'examples' | 'hash', string>> & ScriptColumns;

/** A row of device_profiles, but for its times. */
export interface ProfileRow {
  readonly id: string;
  readonly device_model_id: string;
  readonly firmware_version: string;
  readonly hardware_versions: string;
  readonly region: string;
  readonly codec_id: string | null;
  readonly payload_codec_runtime: CodecRuntime;
  readonly mac_version: string;
  readonly reg_params_revision: string;
  readonly device_status_req_interval: number;
  readonly uplink_interval: number;
  readonly flush_queue_on_activate: number;
  readonly supports_class_b: number;
  readonly supports_class_c: number;
  readonly supports_otaa: number;
  readonly hash: string;
}

/** A model with all that hangs on it. */
export interface ModelRows {
  readonly model: ModelRow;
  readonly spellings: readonly SpellingRow[];
  readonly profiles: readonly ProfileRow[];
}

/** What was read of a vendor, as the tables hold it. */
export interface VendorRows {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly models: readonly ModelRows[];
  readonly codecs: readonly CodecRow[];
  readonly unread: Unread;
}

/** The rows of a vendor, with their hashes. */
export function rowsOf(source: ProfileSource, vendor: ReadVendor): VendorRows {
  const scriptHashes = new Map<string, string>();
  const codecs = vendor.codecs.map((codec) => {
    const row = codecRow(source, vendor.id, codec);
    scriptHashes.set(codec.name, digest(row.scripts));
    return row;
  });
  return { source, brandId: vendor.id, models: vendor.models.map((model) => modelRows(source, vendor, model, scriptHashes)), codecs, unread: vendor.unread };
}

function codecRow(source: ProfileSource, brandId: string, codec: ReadCodec): CodecRow {
  const [columns, examples] = [scriptsToColumns(codec.scripts), JSON.stringify(codec.examples)];
  return { id: codecId(source, brandId, codec.name), source, brand_id: brandId, name: codec.name, ...columns, examples, hash: digest(columns.scripts, examples) };
}

function modelRows(source: ProfileSource, vendor: ReadVendor, read: ReadModel, scriptHashes: ReadonlyMap<string, string>): ModelRows {
  const id = `${source}/${vendor.id}/${read.id}`;
  const [brandName, modelName] = [storable(vendor.name, LONGEST_NAME), storable(read.name, LONGEST_NAME)];
  const description = storable(read.description, LONGEST_DESCRIPTION);
  const spellings = spellingsOf(vendor, read).map((spelling) => ({ ...spelling, device_model_id: id }));
  const hashed = digest(brandName, modelName, description, spellings);
  const [brandFolded, modelFolded] = [brandName, modelName].map((name) => cut(foldName(name), LONGEST_NAME)) as [string, string];
  const searched = [foldName(vendor.id), brandFolded, foldName(read.id), modelFolded].join('\n');
  const names = { brand_id: vendor.id, brand_name: brandName, brand_folded: brandFolded, model_id: read.id, model_name: modelName, model_folded: modelFolded, search_folded: searched };
  return {
    model: { id, source, ...names, description, hash: hashed },
    spellings,
    profiles: read.profiles.map((profile) => profileRow(source, vendor.id, read.id, profile, [hashed, profile.codec === undefined ? '' : (scriptHashes.get(profile.codec) ?? '')])),
  };
}

/** `around`: the hashes of the model and of the scripts, which make the profile another one too. */
function profileRow(source: ProfileSource, brandId: string, modelId: string, read: ReadProfile, around: readonly string[]): ProfileRow {
  const firmware = read.firmwareVersion;
  const row = {
    id: `${brandId}/${modelId}/${firmware}/${read.region}`,
    device_model_id: `${source}/${brandId}/${modelId}`,
    firmware_version: firmware,
    hardware_versions: JSON.stringify(read.hardwareVersions),
    region: read.region,
    codec_id: read.codec === undefined ? null : codecId(source, brandId, read.codec),
    payload_codec_runtime: read.payloadCodecRuntime,
    mac_version: read.macVersion,
    reg_params_revision: storable(read.regParamsRevision, LONGEST_NAME),
    device_status_req_interval: read.deviceStatusReqInterval,
    uplink_interval: read.uplinkInterval,
    flush_queue_on_activate: Number(read.flushQueueOnActivate),
    supports_class_b: Number(read.supportsClassB),
    supports_class_c: Number(read.supportsClassC),
    supports_otaa: Number(read.supportsOtaa),
  };
  return { ...row, hash: digest(row, around) };
}

const codecId = (source: ProfileSource, brandId: string, name: string): string => `${source}/${brandId}/${name}`;

const digest = (...parts: readonly unknown[]): string => hash('sha256', JSON.stringify(parts), 'hex');

/** PostgreSQL holds no NUL. */
const storable = (text: string, most: number): string => cut(text.replaceAll('\0', ''), most).toWellFormed();
