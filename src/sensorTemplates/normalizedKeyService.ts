import type { UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import { notFound } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { newId } from '../kernel/ids';
import type { Cursors } from '../kernel/pages';
import { readListPage, type ListPage } from './readListPage';
import { keyNameTaken, type NormalizedKeyRepository } from './normalizedKeyRepository';
import type { NormalizedKey } from './sensorTemplate';
import type { SensorTemplateRepositories } from './sensorTemplateRepositories';
import { readOnlySystemRecord } from './readOnlySystemRecord';

/** Manages normalized keys: the standard names of measured quantities. */
export class NormalizedKeyService {
  constructor(
    private readonly deps: {
      readonly uow: UnitOfWork<SensorTemplateRepositories>;
      readonly clock: Clock;
      readonly cursors: Cursors;
    },
  ) {}

  /** Throws `name_taken`. */
  async create(organizationId: string, name: string): Promise<NormalizedKey> {
    const now = this.deps.clock.now();
    const key = { id: newId(), organizationId, name, createdAt: now, updatedAt: now, revision: 1 };
    const { keys } = this.deps.uow.repos;
    await assertNotSystemName(keys, name);
    await keys.create(organizationId, key);
    return key;
  }

  /** Returns an own or system key. Throws `normalized_key_not_found`. */
  async get(organizationId: string, id: string): Promise<NormalizedKey> {
    const key = await this.deps.uow.repos.keys.find(organizationId, id);
    if (!key) throw notFound('normalized_key', id);
    return key;
  }

  /**
   * Returns own keys, newest first, then system keys; all keys unless `size` or `token` is set. Throws
   * `validation_failed` for a token of another list.
   */
  async list(organizationId: string, size: number | undefined, token: string): Promise<ListPage<NormalizedKey>> {
    const { uow, cursors } = this.deps;
    return await readListPage(
      cursors,
      [organizationId, 'normalized_keys'],
      size,
      token,
      async (after, limit) => await uow.repos.keys.list(organizationId, after, limit),
    );
  }

  /** Renames a key. Throws `normalized_key_not_found`, `read_only_record`, `version_conflict`, `name_taken`. */
  async rename(organizationId: string, id: string, name: string, etag?: string): Promise<NormalizedKey> {
    const { uow, clock } = this.deps;
    return await uow.transaction(async ({ keys }) => {
      const key = await keys.lock(organizationId, id);
      if (!key) throw notFound('normalized_key', id);
      if (key.organizationId === undefined) throw readOnlySystemRecord('normalized key', id);
      checkEtag('normalized_key', key.revision, etag);
      await assertNotSystemName(keys, name);
      const renamed = { ...key, name, updatedAt: clock.now(), revision: key.revision + 1 };
      await keys.update(organizationId, renamed);
      return renamed;
    });
  }
}

async function assertNotSystemName(keys: NormalizedKeyRepository, name: string): Promise<void> {
  if (await keys.isSystemName(name)) throw keyNameTaken(name);
}
