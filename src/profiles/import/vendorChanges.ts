import { modelIn, notRead, type NotRead } from './notRead';
import type { ImportWarning } from './readVendor';
import type { CodecRow, ModelRow, ModelRows, ProfileRow, SpellingRow, VendorRows } from './vendorRows';

/** What is stored of a brand: hashes by id. */
export interface StoredBrand {
  readonly models: ReadonlyMap<string, string>;
  readonly codecs: ReadonlyMap<string, string>;
  /** Profiles of the source that is imported. */
  readonly profiles: ReadonlyMap<string, string>;
  /** The ids of the codecs that those name, by their own. */
  readonly codecOf: ReadonlyMap<string, string>;
  /** Profiles that another source gave, each with that source. */
  readonly others: ReadonlyMap<string, string>;
}

/** Rows that are not there yet, and rows that are there with another hash; each in the order of their ids, so that two imports at once wait for each other and not each for the other. */
export interface Changes<Row> {
  readonly created: readonly Row[];
  readonly changed: readonly Row[];
}

/** What has to be written for a vendor, and what there is to say of it. */
export interface VendorChanges extends NotRead {
  readonly models: Changes<ModelRow>;
  /** Of the models that are created or changed. */
  readonly spellings: readonly SpellingRow[];
  readonly codecs: Changes<CodecRow>;
  /** The ids of stored codecs that no profile names any more; they are removed. */
  readonly unusedCodecs: readonly string[];
  readonly profiles: Changes<ProfileRow>;
  readonly unchanged: number;
  readonly modelCount: number;
  readonly warnings: readonly ImportWarning[];
}

/** Compares what was read with what is stored. */
export function changesOf(rows: VendorRows, stored: StoredBrand): VendorChanges {
  const models = rows.models.map((one) => withoutOthers(one, stored)).filter(({ profiles }) => profiles.length > 0);
  const profiles = models.flatMap((one) => one.profiles);
  const [used, read] = [new Set(profiles.map((profile) => profile.codec_id)), new Set(profiles.map(({ id }) => id))];
  const left = [...stored.profiles.keys()].filter((id) => !read.has(id));
  const inUse = new Set([...used, ...left.map((id) => stored.codecOf.get(id))]);
  const modelChanges = compared(models.map(({ model }) => model), stored.models);
  const profileChanges = compared(profiles, stored.profiles);
  const written = new Set([...modelChanges.created, ...modelChanges.changed].map(({ id }) => id));
  return {
    models: modelChanges,
    spellings: models.filter(({ model }) => written.has(model.id)).flatMap(({ spellings }) => spellings),
    codecs: compared(rows.codecs.filter(({ id }) => used.has(id)), stored.codecs),
    unusedCodecs: [...stored.codecs.keys()].filter((id) => !inUse.has(id)),
    profiles: profileChanges,
    unchanged: profiles.length - profileChanges.created.length - profileChanges.changed.length,
    ...notRead(left, rows.unread, modelIn),
    modelCount: models.length,
    warnings: rows.models.flatMap((one) => warningsOf(one, stored)),
  };
}

/** Whether there is anything to write. */
export function isAnything({ models, codecs, unusedCodecs, profiles }: VendorChanges): boolean {
  return unusedCodecs.length > 0 || [models, codecs, profiles].some(({ created, changed }) => created.length + changed.length > 0);
}

/** Whoever gave an id first keeps it: else two imports would change it to and fro. */
function withoutOthers(rows: ModelRows, { others }: StoredBrand): ModelRows {
  return { ...rows, profiles: rows.profiles.filter(({ id }) => !others.has(id)) };
}

function warningsOf({ model, profiles }: ModelRows, { others }: StoredBrand): ImportWarning[] {
  const taken = profiles.flatMap(({ id }) => others.get(id) ?? []);
  if (taken.length === 0) return [];
  return [{ file: `${model.brand_id}/${model.model_id}`, reason: `${taken.length} of its ${profiles.length} profiles came from ${taken[0]} before and stay as they are; remove those first if these are wanted` }];
}

function compared<Row extends { readonly id: string; readonly hash: string }>(rows: readonly Row[], stored: ReadonlyMap<string, string>): Changes<Row> {
  const sorted = rows.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  return { created: sorted.filter(({ id }) => !stored.has(id)), changed: sorted.filter(({ id, hash }) => stored.has(id) && stored.get(id) !== hash) };
}
