import { CommandLineAudit, LiveKeys, type LiveKey } from '../../access';
import { rowCounts, type Database } from '../../database';
import { endRestored, type ExecutionState } from '../../executions';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { BackupManifest } from '../backup/manifest';
import { databaseDamaged } from './restoreErrors';

/** What was made of the database of a backup. */
export interface PreparedDatabase {
  /** The names of the newest migrations. */
  readonly schema: { readonly before: string; readonly after: string };
  /** How many rows each table has in the end, by its name. */
  readonly rows: ReadonlyMap<string, number>;
  /** How many executions were ended (T37), by the state that they were in. */
  readonly executions: ReadonlyMap<ExecutionState, number>;
  /** The keys that open something again, or did until they were revoked here. */
  readonly keys: readonly LiveKey[];
}

/** What the preparation needs; the database has only what the backup holds. */
export interface PreparationOptions {
  readonly database: Database;
  readonly manifest: Pick<BackupManifest, 'schema' | 'createdAt'>;
  readonly revokesKeys: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** What is being done, for people. */
  readonly onStep: (step: string) => void;
}

/**
 * Makes the database of a backup one that a server may be started on: looks whether it holds together, brings its schema up to date, ends
 * what was not final, revokes its keys where that is wanted, and writes the restore into the audit trail of each organization.
 * Throws `backup_damaged`, `schema_too_new`.
 */
export async function prepareDatabase({ database, manifest, revokesKeys, clock, log, onStep }: PreparationOptions): Promise<PreparedDatabase> {
  onStep('checking the database');
  await refuseDamaged(database, clock.now());
  const { schema: before } = await database.describe();
  if (before !== manifest.schema) throw databaseDamaged(`its schema is ${before || 'none'} and not ${manifest.schema}`);
  onStep('bringing the schema up to date');
  await database.migrate(false); // what it was made of is kept
  const liveKeys = new LiveKeys({ database, clock, log });
  const keys = await liveKeys.list();
  const fields = [`backupCreatedAt=${manifest.createdAt}`, ...(revokesKeys ? ['revokeKeys'] : [])];
  const executions = await new CommandLineAudit({ database, clock, log }).changeOfAll('restore', { resource: 'backups', fields }, async (begin) => {
    await begin();
    onStep('ending executions');
    const ended = await endRestored({ database, clock, backupCreatedAt: manifest.createdAt });
    if (revokesKeys) await liveKeys.revoke(keys);
    return ended;
  });
  onStep('counting rows');
  const { schema: after } = await database.describe();
  return { schema: { before, after }, rows: await rowCounts(database.db), executions, keys };
}

async function refuseDamaged(database: Database, now: number): Promise<void> {
  const damage = (await database.checks(now)).find(({ check, state }) => check === 'integrity' && state === 'fail');
  if (damage) throw databaseDamaged(damage.found);
}
