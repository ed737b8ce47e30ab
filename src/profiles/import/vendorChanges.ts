import { getModel, classifySkipped, type SkippedEntries } from './skippedEntries';
import type { ImportWarning } from './readVendor';
import type { CodecRow, ModelRow, ModelRows, ProfileRow, AliasRow, VendorRows } from './vendorRows';

/** The stored records of a brand, which is the vendor of an import. A hash shows whether a record changes. */
export interface StoredBrand {
  readonly hashByModel: ReadonlyMap<string, string>;
  readonly hashByCodec: ReadonlyMap<string, string>;
  /** Only of the profiles of the imported source. */
  readonly hashByProfile: ReadonlyMap<string, string>;
  /** The codec ids of these profiles, by profile id. */
  readonly codecIdByProfile: ReadonlyMap<string, string>;
  /** The source of each profile that was imported from another source, by profile id. */
  readonly otherSourceByProfile: ReadonlyMap<string, string>;
}

/**
 * New rows, and existing rows with another hash. Both are sorted by id, so that concurrent imports lock rows in the
 * same order and cannot deadlock.
 */
export interface Changes<Row> {
  readonly created: readonly Row[];
  readonly changed: readonly Row[];
}

/** The changes to write for a vendor, with counts and warnings. */
export interface VendorChanges extends SkippedEntries {
  readonly models: Changes<ModelRow>;
  /** The search names of created or changed models. */
  readonly aliases: readonly AliasRow[];
  readonly codecs: Changes<CodecRow>;
  /** The ids of stored codecs that no profile uses any more; they are removed. */
  readonly unusedCodecs: readonly string[];
  readonly profiles: Changes<ProfileRow>;
  /** The number of unchanged profiles. */
  readonly unchanged: number;
  /** The number of models with at least one imported profile. */
  readonly modelCount: number;
  readonly warnings: readonly ImportWarning[];
}

/**
 * Compares the rows of a vendor with the stored records of its brand. Stored profiles that the import did not read stay
 * stored, and so do the codecs that they use.
 */
export function compareVendor(rows: VendorRows, stored: StoredBrand): VendorChanges {
  const models = rows.models
    .map((modelRows) => removeProfilesOfOtherSources(modelRows, stored))
    .filter(({ profiles }) => profiles.length > 0);
  const importedProfiles = models.flatMap((modelRows) => modelRows.profiles);
  const importedProfileIds = new Set(importedProfiles.map(({ id }) => id));
  const importedCodecIds = new Set(importedProfiles.map((profile) => profile.codec_id));
  const unreadProfileIds = [...stored.hashByProfile.keys()].filter((id) => !importedProfileIds.has(id));
  const usedCodecIds = new Set([...importedCodecIds, ...unreadProfileIds.map((id) => stored.codecIdByProfile.get(id))]);
  const modelChanges = compareRows(
    models.map(({ model }) => model),
    stored.hashByModel,
  );
  const profileChanges = compareRows(importedProfiles, stored.hashByProfile);
  const writtenModelIds = new Set([...modelChanges.created, ...modelChanges.changed].map(({ id }) => id));
  return {
    models: modelChanges,
    aliases: models.filter(({ model }) => writtenModelIds.has(model.id)).flatMap(({ aliases }) => aliases),
    codecs: compareRows(
      rows.codecs.filter(({ id }) => importedCodecIds.has(id)),
      stored.hashByCodec,
    ),
    unusedCodecs: [...stored.hashByCodec.keys()].filter((id) => !usedCodecIds.has(id)),
    profiles: profileChanges,
    unchanged: importedProfiles.length - profileChanges.created.length - profileChanges.changed.length,
    ...classifySkipped(unreadProfileIds, rows.incompleteModels, getModel),
    modelCount: models.length,
    warnings: rows.models.flatMap((modelRows) => listWarnings(modelRows, stored)),
  };
}

/** Returns whether there is anything to write. */
export function hasChanges({ models, codecs, unusedCodecs, profiles }: VendorChanges): boolean {
  return (
    unusedCodecs.length > 0 ||
    [models, codecs, profiles].some(({ created, changed }) => created.length + changed.length > 0)
  );
}

/**
 * Removes profiles whose ids another source already uses. Otherwise, two imports would overwrite each other's profiles
 * again and again.
 */
function removeProfilesOfOtherSources(rows: ModelRows, { otherSourceByProfile }: StoredBrand): ModelRows {
  return { ...rows, profiles: rows.profiles.filter(({ id }) => !otherSourceByProfile.has(id)) };
}

/** Returns a warning if profiles of the model are not imported because another source has their ids. */
function listWarnings({ model, profiles }: ModelRows, { otherSourceByProfile }: StoredBrand): ImportWarning[] {
  const conflictingSources = profiles.flatMap(({ id }) => otherSourceByProfile.get(id) ?? []);
  if (conflictingSources.length === 0) return [];
  return [
    {
      file: `${model.brand_id}/${model.model_id}`,
      reason: `${conflictingSources.length} of its ${profiles.length} profiles already exist from ${conflictingSources[0]} and are unchanged; remove those first to import these`,
    },
  ];
}

/**
 * Returns the rows that are not stored, and those that are stored with another hash, each sorted by id. `hashById`: of
 * the stored rows.
 */
function compareRows<Row extends { readonly id: string; readonly hash: string }>(
  rows: readonly Row[],
  hashById: ReadonlyMap<string, string>,
): Changes<Row> {
  const sorted = rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return {
    created: sorted.filter(({ id }) => !hashById.has(id)),
    changed: sorted.filter(({ id, hash }) => hashById.has(id) && hashById.get(id) !== hash),
  };
}
