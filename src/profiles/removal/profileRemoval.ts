import { UnitOfWork, type Database } from '../../database';
import { DomainError } from '../../kernel/errors';
import { raced } from '../raced';
import { RemovalRepository, type ProfileSelection, type Removed } from './removalRepository';

/** A profile that stays, and how many devices use it. */
export interface UsedProfile {
  readonly id: string;
  readonly devices: number;
}

/** What a removal did. */
export interface RemovedProfiles extends Removed {
  readonly kept: readonly UsedProfile[];
}

/** What a removal needs. */
export interface ProfileRemovalOptions {
  readonly database: Database;
  /** How many devices use each of these profiles; those that none uses are left out. A hook of the room that keeps devices. */
  readonly uses: (profileIds: readonly string[]) => Promise<ReadonlyMap<string, number>>;
}

/** Profiles of one transaction, each with its codec: the server's own writes wait as long as that takes. */
const PROFILES_AT_ONCE = 50;
const NOTHING: Removed = { removed: 0, models: 0, codecs: 0 };

/** Removes profiles, some at a time, so that a server beside it never waits long. */
export class ProfileRemoval {
  private readonly uow: UnitOfWork<RemovalRepository>;

  constructor(private readonly options: ProfileRemovalOptions) {
    this.uow = new UnitOfWork(options.database, (db) => new RemovalRepository(db));
  }

  /**
   * Removes what is selected, with the models and codecs that only it had; what devices use stays. `beforeChange` is waited for before anything is removed. Throws `profile_not_found` for
   * an id that is none, before anything else is done.
   */
  async remove(selection: ProfileSelection, beforeChange?: () => Promise<void>): Promise<RemovedProfiles> {
    if (selection.ids) await this.checkIds(selection.ids);
    const kept: UsedProfile[] = [];
    let [removed, models, codecs] = [0, 0, 0];
    for await (const ids of this.portions(selection)) {
      const done = await this.removePortion(ids, beforeChange);
      removed += done.removed;
      models += done.models;
      codecs += done.codecs;
      kept.push(...done.kept);
    }
    return { removed, models, codecs, kept };
  }

  private async *portions({ ids, brandId, source }: ProfileSelection): AsyncGenerator<readonly string[]> {
    if (ids) {
      yield* sliced(ids);
      return;
    }
    const next = async (after: string): Promise<string[]> => await this.uow.repos.select({ brandId, source }, after, PROFILES_AT_ONCE);
    for (let found = await next(''); found.length > 0; found = await next(found.at(-1) ?? '')) yield found;
  }

  private async checkIds(ids: readonly string[]): Promise<void> {
    for (const some of sliced(ids)) {
      const found = await this.uow.repos.existing(some);
      const missing = some.find((id) => !found.has(id));
      if (missing !== undefined) throw new DomainError('not_found', 'profile_not_found', `no profile ${JSON.stringify(missing)} was imported, and nothing was removed; \`plantroom profiles list\` shows those that are there`);
    }
  }

  /** A device may be given a profile meanwhile: the foreign key refuses, and it is looked at anew. */
  private async removePortion(ids: readonly string[], beforeChange?: () => Promise<void>): Promise<RemovedProfiles> {
    return await raced(this.options.database, async () => {
      const uses = await this.options.uses(ids);
      const kept = ids.flatMap((id) => (uses.has(id) ? [{ id, devices: uses.get(id) ?? 0 }] : []));
      const free = ids.filter((id) => !uses.has(id));
      if (free.length === 0) return { ...NOTHING, kept };
      await beforeChange?.();
      return { ...(await this.uow.transaction(async (repository) => await repository.remove(free))), kept };
    });
  }
}

/** Each id once. */
function* sliced(ids: readonly string[]): Generator<readonly string[]> {
  const once = [...new Set(ids)];
  for (let at = 0; at < once.length; at += PROFILES_AT_ONCE) yield once.slice(at, at + PROFILES_AT_ONCE);
}
