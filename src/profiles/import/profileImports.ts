import { UnitOfWork, type Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { ProfileSource } from '../profile';
import { retryOnConflict } from '../retryOnConflict';
import { ImportRepository } from './importRepository';
import { getBrand, classifySkipped, type SkippedEntries } from './skippedEntries';
import type { ImportWarning, ProfileRepository, ReadVendor } from './readVendor';
import { compareVendor, hasChanges, type VendorChanges } from './vendorChanges';
import { getRows, type VendorRows } from './vendorRows';

/** The result of the import of one vendor. */
export interface ImportedVendor extends SkippedEntries {
  readonly models: number;
  /** The number of created profiles. */
  readonly created: number;
  /** The number of changed profiles. */
  readonly changed: number;
  /** The number of unchanged profiles. */
  readonly unchanged: number;
  /**
   * The number of codecs that were written, or removed because no profile uses them any more. It includes codecs of
   * which only the examples changed, which changes no profile.
   */
  readonly changedCodecs: number;
  /** Warnings about profiles that could not be stored because another repository already uses their ids. */
  readonly warnings: readonly ImportWarning[];
}

/** Dependencies of ProfileImports. */
interface ProfileImportsOptions {
  readonly database: Database;
  readonly clock: Clock;
}

/** Stores what was read, in one transaction per vendor. Unchanged records are not written. */
export class ProfileImports {
  private readonly uow: UnitOfWork<ImportRepository>;

  constructor(private readonly options: ProfileImportsOptions) {
    this.uow = new UnitOfWork(options.database, (db) => new ImportRepository(db));
  }

  /**
   * Stores a vendor. A stored profile keeps its id; no profile is removed. If there are changes, it awaits
   * `beforeChange` before it writes them; an error that `beforeChange` throws aborts the import.
   */
  async store(source: ProfileSource, vendor: ReadVendor, beforeChange?: () => Promise<void>): Promise<ImportedVendor> {
    const rows = getRows(source, vendor);
    // The first comparison is outside of a transaction: a transaction without changes would block other writes of the
    // server.
    const changes = compareVendor(rows, await this.uow.repos.read(source, vendor.id));
    if (!hasChanges(changes)) return toImportedVendor(changes);
    await beforeChange?.();
    return toImportedVendor(await this.write(rows));
  }

  /**
   * Finds the stored profiles of the source whose brands are not vendors of the repository: they are gone, or kept if
   * their vendor could not be read.
   */
  async findProfilesOfOtherBrands({
    source,
    vendorIds,
    incompleteVendors,
  }: Pick<ProfileRepository, 'source' | 'vendorIds' | 'incompleteVendors'>): Promise<SkippedEntries> {
    return classifySkipped(
      await this.uow.repos.listProfilesOfOtherBrands(source, vendorIds),
      incompleteVendors,
      getBrand,
    );
  }

  /**
   * Writes the changes. Another import or a removal may change the same brand at the same time; the stored records are
   * then read again.
   */
  private async write(rows: VendorRows): Promise<VendorChanges> {
    const { database, clock } = this.options;
    const writeChanges = async (repository: ImportRepository): Promise<VendorChanges> => {
      const changes = compareVendor(rows, await repository.readForUpdate(rows.source, rows.brandId));
      await repository.write(changes, clock.now());
      return changes;
    };
    return await retryOnConflict(database, async () => await this.uow.transaction(writeChanges));
  }
}

/** Counts the changes for the result of an import. */
function toImportedVendor({
  modelCount,
  profiles,
  codecs,
  unusedCodecs,
  unchanged,
  gone,
  kept,
  warnings,
}: VendorChanges): ImportedVendor {
  const changedCodecs = codecs.created.length + codecs.changed.length + unusedCodecs.length;
  return {
    models: modelCount,
    created: profiles.created.length,
    changed: profiles.changed.length,
    unchanged,
    changedCodecs,
    gone,
    kept,
    warnings,
  };
}
