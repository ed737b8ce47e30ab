import { hash } from 'node:crypto';
import { normalizeForSearch } from '../../database';
import { truncate } from '../../kernel/truncate';
import { type ScriptColumns, scriptsToColumns } from '../codecs/storedScripts';
import type { CodecRuntime, ProfileSource } from '../profile';
import {
  MAX_DESCRIPTION_LENGTH,
  MAX_NAME_LENGTH,
  type ReadCodec,
  type ReadModel,
  type ReadProfile,
  type ReadVendor,
  type IncompleteEntries,
} from './readVendor';
import { listAliases } from './aliases';

/** A row of device_models without its timestamps. */
export type ModelRow = Readonly<
  Record<
    | 'id'
    | 'source'
    | 'brand_id'
    | 'brand_name'
    | 'brand_folded'
    | 'model_id'
    | 'model_name'
    | 'model_folded'
    | 'search_folded'
    | 'description'
    | 'hash',
    string
  >
>;

/** A row of device_model_spellings. */
export interface AliasRow {
  readonly brand: string;
  readonly model: string;
  readonly device_model_id: string;
  readonly rank: number;
}

/** A row of device_codecs without its timestamps. */
export type CodecRow = Readonly<Record<'id' | 'source' | 'brand_id' | 'name' | 'examples' | 'hash', string>> &
  ScriptColumns;

/** A row of device_profiles without its timestamps. */
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

/** A model with its aliases and profiles. */
export interface ModelRows {
  readonly model: ModelRow;
  readonly aliases: readonly AliasRow[];
  readonly profiles: readonly ProfileRow[];
}

/** The contents of a vendor as table rows. */
export interface VendorRows {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly models: readonly ModelRows[];
  readonly codecs: readonly CodecRow[];
  readonly incompleteModels: IncompleteEntries;
}

/** Converts a vendor to table rows with hashes. */
export function getRows(source: ProfileSource, vendor: ReadVendor): VendorRows {
  const scriptHashes = new Map<string, string>();
  const codecs = vendor.codecs.map((codec) => {
    const row = buildCodecRow(source, vendor.id, codec);
    scriptHashes.set(codec.name, digest(row.scripts));
    return row;
  });
  return {
    source,
    brandId: vendor.id,
    models: vendor.models.map((model) => buildModelRows(source, vendor, model, scriptHashes)),
    codecs,
    incompleteModels: vendor.incompleteModels,
  };
}

/** Converts a codec. Its hash covers the scripts and the examples. */
function buildCodecRow(source: ProfileSource, brandId: string, codec: ReadCodec): CodecRow {
  const columns = scriptsToColumns(codec.scripts);
  const examples = JSON.stringify(codec.examples);
  return {
    id: getCodecId(source, brandId, codec.name),
    source,
    brand_id: brandId,
    name: codec.name,
    ...columns,
    examples,
    hash: digest(columns.scripts, examples),
  };
}

/** Converts a model with its aliases and profiles. `scriptHashes`: by codec name. */
function buildModelRows(
  source: ProfileSource,
  vendor: ReadVendor,
  model: ReadModel,
  scriptHashes: ReadonlyMap<string, string>,
): ModelRows {
  const id = `${source}/${vendor.id}/${model.id}`;
  const brandName = toStorableText(vendor.name, MAX_NAME_LENGTH);
  const modelName = toStorableText(model.name, MAX_NAME_LENGTH);
  const description = toStorableText(model.description, MAX_DESCRIPTION_LENGTH);
  const aliases = listAliases(vendor, model).map((alias) => ({ ...alias, device_model_id: id }));
  const modelHash = digest(brandName, modelName, description, aliases);
  const brandFolded = truncate(normalizeForSearch(brandName), MAX_NAME_LENGTH);
  const modelFolded = truncate(normalizeForSearch(modelName), MAX_NAME_LENGTH);
  const searchText = [normalizeForSearch(vendor.id), brandFolded, normalizeForSearch(model.id), modelFolded].join('\n');
  const names = {
    brand_id: vendor.id,
    brand_name: brandName,
    brand_folded: brandFolded,
    model_id: model.id,
    model_name: modelName,
    model_folded: modelFolded,
    search_folded: searchText,
  };
  return {
    model: { id, source, ...names, description, hash: modelHash },
    aliases,
    profiles: model.profiles.map((profile) =>
      buildProfileRow({ source, brandId: vendor.id, modelId: model.id }, profile, [
        modelHash,
        profile.codec === undefined ? '' : (scriptHashes.get(profile.codec) ?? ''),
      ]),
    ),
  };
}

/** Identifies a model. */
interface ModelKey {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly modelId: string;
}

/**
 * Converts a profile. `dependencyHashes`: the hashes of the model and of the scripts. If one of them changes, the
 * profile counts as changed.
 */
function buildProfileRow(
  { source, brandId, modelId }: ModelKey,
  profile: ReadProfile,
  dependencyHashes: readonly string[],
): ProfileRow {
  const firmware = profile.firmwareVersion;
  const row = {
    id: `${brandId}/${modelId}/${firmware}/${profile.region}`,
    device_model_id: `${source}/${brandId}/${modelId}`,
    firmware_version: firmware,
    hardware_versions: JSON.stringify(profile.hardwareVersions),
    region: profile.region,
    codec_id: profile.codec === undefined ? null : getCodecId(source, brandId, profile.codec),
    payload_codec_runtime: profile.payloadCodecRuntime,
    mac_version: profile.macVersion,
    reg_params_revision: toStorableText(profile.regParamsRevision, MAX_NAME_LENGTH),
    device_status_req_interval: profile.deviceStatusReqInterval,
    uplink_interval: profile.uplinkInterval,
    flush_queue_on_activate: Number(profile.flushQueueOnActivate),
    supports_class_b: Number(profile.supportsClassB),
    supports_class_c: Number(profile.supportsClassC),
    supports_otaa: Number(profile.supportsOtaa),
  };
  return { ...row, hash: digest(row, dependencyHashes) };
}

const getCodecId = (source: ProfileSource, brandId: string, name: string): string => `${source}/${brandId}/${name}`;

const digest = (...parts: readonly unknown[]): string => hash('sha256', JSON.stringify(parts), 'hex');

/** Removes NUL characters, which PostgreSQL cannot store, and truncates the text. */
const toStorableText = (text: string, max: number): string => truncate(text.replaceAll('\0', ''), max).toWellFormed();
