import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { SettingsRepository } from '../settingsRepository';
import { AuditChainRepository } from './auditChainRepository';
import { AuditRepository } from './auditRepository';
import { serverEvent } from './serverEvents';

/** The `method` of the first event of an organization that was made before there was a trail, or by a server that was killed just then. */
const BEGINS = 'audit trail begins';
const ONCE = 'audit_chains_opened_at';
const AT_ONCE = 500;

/**
 * Gives each organization from before the trail a chain, once ever: from then on one without a chain has lost it, and verifying says so.
 * Later only to those that may have been made by whoever was killed before the event of it was in a chain.
 */
export async function openChains(database: Database, clock: Clock): Promise<void> {
  await database.transaction(async (db) => {
    const chains = new AuditChainRepository(db);
    const events = new AuditRepository(db);
    const isFirst = (await chains.isAnyOrganization()) && (await new SettingsRepository(db).claim(ONCE, String(clock.now())));
    const since = isFirst ? 0 : await chains.oldestPending('');
    if (since === undefined) return;
    for (let ids = await chains.organizationsWithout('', AT_ONCE, since); ids.length > 0; ids = await chains.organizationsWithout(ids.at(-1) ?? '', AT_ONCE, since)) {
      for (const id of ids) await events.append(id, await events.lock(id), [serverEvent(clock.now(), id, BEGINS, `organizations/${id}`)]);
    }
  });
}
