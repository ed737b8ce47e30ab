import { UnitOfWork, type Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { ProfileSource } from '../profile';
import { raced } from '../raced';
import { ImportRepository } from './importRepository';
import type { ImportWarning, ReadVendor } from './readVendor';
import { changesOf, isAnything, type VendorChanges } from './vendorChanges';
import { rowsOf, type VendorRows } from './vendorRows';

/** What an import of one vendor did. */
export interface ImportedVendor {
  readonly models: number;
  /** Profiles. */
  readonly created: number;
  readonly changed: number;
  readonly unchanged: number;
  /** Codecs that were written, or removed because no profile names them any more. Also those of which only the examples are others: no profile shows that. */
  readonly changedCodecs: number;
  /** The ids of profiles that are stored and that the repository does not have any more; they stay. */
  readonly gone: readonly string[];
  /** Of what could not be stored: an id that another repository gave already. */
  readonly warnings: readonly ImportWarning[];
}

/** What imports need. */
export interface ProfileImportsOptions {
  readonly database: Database;
  readonly clock: Clock;
}

/** Stores what was read, one transaction for each vendor; what did not change is not written. */
export class ProfileImports {
  private readonly uow: UnitOfWork<ImportRepository>;

  constructor(private readonly options: ProfileImportsOptions) {
    this.uow = new UnitOfWork(options.database, (db) => new ImportRepository(db));
  }

  /** Stores a vendor. A profile that is stored keeps its id; none is removed. `beforeChange` is waited for if there is anything to write, before that; what it throws ends the import. */
  async store(source: ProfileSource, vendor: ReadVendor, beforeChange?: () => Promise<void>): Promise<ImportedVendor> {
    const rows = rowsOf(source, vendor);
    // Looked at outside first: a transaction would keep the server's own writes waiting although nothing changed.
    const seen = changesOf(rows, await this.uow.repos.read(source, vendor.id));
    if (!isAnything(seen)) return imported(seen);
    await beforeChange?.();
    return imported(await this.write(rows));
  }

  /** The ids of the profiles of a source whose brands its repository does not have at all any more; they stay. */
  async ofOtherBrands(source: ProfileSource, brandIds: readonly string[]): Promise<string[]> {
    return await this.uow.repos.profilesBeside(source, brandIds);
  }

  /** Another import, or a removal, may be at the same brand: then what is stored is read anew. */
  private async write(rows: VendorRows): Promise<VendorChanges> {
    const { database, clock } = this.options;
    const once = async (repository: ImportRepository): Promise<VendorChanges> => {
      const changes = changesOf(rows, await repository.readToWrite(rows.source, rows.brandId));
      await repository.write(changes, clock.now());
      return changes;
    };
    return await raced(database, async () => await this.uow.transaction(once));
  }
}

function imported({ modelCount, profiles, codecs, unusedCodecs, unchanged, gone, warnings }: VendorChanges): ImportedVendor {
  const changedCodecs = codecs.created.length + codecs.changed.length + unusedCodecs.length;
  return { models: modelCount, created: profiles.created.length, changed: profiles.changed.length, unchanged, changedCodecs, gone, warnings };
}
