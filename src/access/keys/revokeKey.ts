import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { AccessRepositories } from '../accessRepositories';
import type { ApiKey } from './apiKey';

/** Ends a key. A revoked one stays as it is. `keyChanged` is called once it is on disk. Throws `api_key_not_found`. */
export async function revokeKey(uow: UnitOfWork<AccessRepositories>, clock: Clock, keyChanged: (keyId: string) => void, organizationId: string, id: string): Promise<ApiKey> {
  return await uow.transaction(async ({ apiKeys }, db) => {
    const revoked = await apiKeys.revoke(organizationId, id, clock.now());
    if (revoked) db.afterCommit(() => keyChanged(id));
    return await apiKeys.get(organizationId, id);
  });
}
