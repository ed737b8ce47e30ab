import { UnitOfWork, type Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { ProfileSource } from '../profile';
import { raced } from '../raced';
import { ImportRepository } from './importRepository';
import { brandIn, notRead, type NotRead } from './notRead';
import type { ImportWarning, ProfileRepository, ReadVendor } from './readVendor';
import { changesOf, isAnything, type VendorChanges } from './vendorChanges';
import { rowsOf, type VendorRows } from './vendorRows';

/** What an import of one vendor did. */
export interface ImportedVendor extends NotRead {
  readonly models: number;
  /** Profiles. */
  readonly created: number;
  readonly changed: number;
  readonly unchanged: number;
  /** Codecs that were written, or removed because no profile names them any more. Also those of which only the examples are others: no profile shows that. */
  readonly changedCodecs: number;
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

  /** The profiles of its source whose brands are none of a repository's vendors. */
  async ofOtherBrands({ source, vendorIds, unread }: Pick<ProfileRepository, 'source' | 'vendorIds' | 'unread'>): Promise<NotRead> {
    return notRead(await this.uow.repos.profilesBeside(source, vendorIds), unread, brandIn);
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

function imported({ modelCount, profiles, codecs, unusedCodecs, unchanged, gone, kept, warnings }: VendorChanges): ImportedVendor {
  const changedCodecs = codecs.created.length + codecs.changed.length + unusedCodecs.length;
  return { models: modelCount, created: profiles.created.length, changed: profiles.changed.length, unchanged, changedCodecs, gone, kept, warnings };
}
