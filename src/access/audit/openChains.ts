import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { SettingsRepository } from '../settingsRepository';
import { AuditChainRepository } from './auditChainRepository';
import { INSTALLATION_CHAIN } from './auditEvent';
import { AuditRepository } from './auditRepository';
import { createServerEvent } from './serverEvents';

/**
 * The `method` of the first event of an organization that was created before the audit trail existed, or by a process
 * that was killed before it wrote the first event.
 */
const FIRST_EVENT_METHOD = 'audit trail begins';
const OPENED_SETTING = 'audit_chains_opened_at';
const CHAIN_BATCH_SIZE = 500;

/**
 * Creates a chain (an audit trail) for each organization from before the audit trail existed. This happens once;
 * afterwards an organization without a chain is an error that verification reports. Later runs only create chains for
 * organizations whose creating process may have been killed before it wrote the first event.
 */
export async function openChains(database: Database, clock: Clock): Promise<void> {
  await database.transaction(async (db) => {
    const chains = new AuditChainRepository(db);
    const events = new AuditRepository(db);
    const isFirstRun =
      (await chains.hasAnyOrganization()) &&
      (await new SettingsRepository(db).claim(OPENED_SETTING, String(clock.now())));
    // While a creation is pending, its organization may exist without a chain. The pending change is in the chain of
    // the installation.
    const createdSince = isFirstRun ? 0 : await chains.findOldestPendingTime(INSTALLATION_CHAIN);
    if (createdSince === undefined) return; // no creation is pending
    for (
      let ids = await chains.listOrganizationsWithoutChain('', CHAIN_BATCH_SIZE, createdSince);
      ids.length > 0;
      ids = await chains.listOrganizationsWithoutChain(ids.at(-1) ?? '', CHAIN_BATCH_SIZE, createdSince)
    ) {
      for (const id of ids)
        await events.appendEvents(id, await events.lockChain(id), [
          createServerEvent(clock.now(), id, FIRST_EVENT_METHOD, `organizations/${id}`),
        ]);
    }
  });
}
