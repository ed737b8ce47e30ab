import { UnitOfWork, type Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import { retryOnConflict } from '../retryOnConflict';
import { RemovalRepository, type ProfileSelection, type Removed } from './removalRepository';
import { splitIntoBatches } from '../../kernel/splitIntoBatches';

/** A profile that was not removed, with the number of devices that use it. */
export interface UsedProfile {
  readonly id: string;
  readonly devices: number;
}

/** The result of a removal. */
interface RemovedProfiles extends Removed {
  readonly kept: readonly UsedProfile[];
}

/** Dependencies of ProfileRemoval. */
interface ProfileRemovalOptions {
  readonly database: Database;
  /**
   * Returns the number of devices that use each of these profiles; unused profiles are absent. A hook of the devices
   * module.
   */
  readonly uses: (profileIds: readonly string[]) => Promise<ReadonlyMap<string, number>>;
}

/** The number of profiles per transaction, each with its codec. Other writes of the server wait for this long. */
const PROFILE_BATCH_SIZE = 50;
const NOTHING: Removed = { removed: 0, models: 0, codecs: 0 };

/** Removes profiles in batches, so that a running server never waits long. */
export class ProfileRemoval {
  private readonly uow: UnitOfWork<RemovalRepository>;

  constructor(private readonly options: ProfileRemovalOptions) {
    this.uow = new UnitOfWork(options.database, (db) => new RemovalRepository(db));
  }

  /**
   * Removes the selected profiles, and the models and codecs that no other profile uses. Profiles that devices use are
   * kept. It awaits `beforeChange` before each batch that removes something, and before each retry of one. Throws
   * `profile_not_found` for an unknown id before any change.
   */
  async remove(selection: ProfileSelection, beforeChange?: () => Promise<void>): Promise<RemovedProfiles> {
    if (selection.ids) await this.checkIds(selection.ids);
    const kept: UsedProfile[] = [];
    let removed = 0;
    let models = 0;
    let codecs = 0;
    for await (const ids of this.listBatches(selection)) {
      const batch = await this.removeBatch(ids, beforeChange);
      removed += batch.removed;
      models += batch.models;
      codecs += batch.codecs;
      kept.push(...batch.kept);
    }
    return { removed, models, codecs, kept };
  }

  /** Yields the ids of the selected profiles in batches; reads each batch when the previous one was removed. */
  private async *listBatches({ ids, brandId, source }: ProfileSelection): AsyncGenerator<readonly string[]> {
    if (ids) {
      yield* splitIntoBatches([...new Set(ids)], PROFILE_BATCH_SIZE);
      return;
    }
    const listAfter = async (after: string): Promise<string[]> =>
      await this.uow.repos.listIds({ brandId, source }, after, PROFILE_BATCH_SIZE);
    // After the last id of the previous batch, because profiles that devices use are not removed.
    for (let batch = await listAfter(''); batch.length > 0; batch = await listAfter(batch.at(-1) ?? '')) yield batch;
  }

  /** Throws `profile_not_found` if one of the profiles does not exist. */
  private async checkIds(ids: readonly string[]): Promise<void> {
    for (const batch of splitIntoBatches([...new Set(ids)], PROFILE_BATCH_SIZE)) {
      const found = await this.uow.repos.findExisting(batch);
      const missing = batch.find((id) => !found.has(id));
      if (missing !== undefined)
        throw new DomainError(
          'not_found',
          'profile_not_found',
          `profile ${JSON.stringify(missing)} not found; nothing was removed. Run \`plantroom profiles list\` to see the imported profiles`,
        );
    }
  }

  /**
   * Removes the unused profiles of a batch. A profile may be assigned to a device after the check. The foreign key then
   * rejects the removal, and the batch is checked again.
   */
  private async removeBatch(ids: readonly string[], beforeChange?: () => Promise<void>): Promise<RemovedProfiles> {
    return await retryOnConflict(this.options.database, async () => {
      const deviceCountByProfile = await this.options.uses(ids);
      const kept = ids.flatMap((id) =>
        deviceCountByProfile.has(id) ? [{ id, devices: deviceCountByProfile.get(id) ?? 0 }] : [],
      );
      const unused = ids.filter((id) => !deviceCountByProfile.has(id));
      if (unused.length === 0) return { ...NOTHING, kept };
      await beforeChange?.();
      return { ...(await this.uow.transaction(async (repository) => await repository.remove(unused))), kept };
    });
  }
}
