import { CommandLineAudit, ActiveKeys, type LiveKey } from '../../access';
import { countRows, type Database } from '../../database';
import { expireRestoredExecutions, type ExecutionState } from '../../executions';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { BackupManifest } from '../manifest';
import { backupDatabaseCorrupt } from './restoreErrors';

/** The result of preparing the database of a backup. */
export interface PreparedDatabase {
  /** The names of the newest migrations, before and after. */
  readonly schema: { readonly before: string; readonly after: string };
  /** The final number of rows of each table, by name. */
  readonly rows: ReadonlyMap<string, number>;
  /** The number of executions that were closed (T37), by their previous state. */
  readonly executions: ReadonlyMap<ExecutionState, number>;
  /** The keys that are valid again, or were until they were revoked here. */
  readonly keys: readonly LiveKey[];
}

/** The input of the preparation. The database has only the content of the backup. */
interface PreparationOptions {
  readonly database: Database;
  readonly manifest: Pick<BackupManifest, 'schema' | 'createdAt'>;
  readonly revokesKeys: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** Reports the current step, for people. */
  readonly onStep: (step: string) => void;
}

/**
 * Prepares the database of a backup for a server: checks its integrity, upgrades its schema, closes executions that are
 * not final, revokes its keys if requested, and writes the restore into the audit trail of each organization. Throws
 * `backup_corrupt`, `schema_version_unsupported`.
 */
export async function prepareDatabase({
  database,
  manifest,
  revokesKeys,
  clock,
  log,
  onStep,
}: PreparationOptions): Promise<PreparedDatabase> {
  onStep('checking the database');
  await assertIntact(database, clock.now());
  const { schema: before } = await database.describe();
  if (before !== manifest.schema)
    throw backupDatabaseCorrupt(`its schema is ${before || 'none'} and not ${manifest.schema}`);
  onStep('upgrading the schema');
  await database.migrate(false); // the backup file itself remains as a copy
  const liveKeys = new ActiveKeys({ database, clock, log });
  const keys = await liveKeys.list();
  const fields = [`backupCreatedAt=${manifest.createdAt}`, ...(revokesKeys ? ['revokeKeys'] : [])];
  const executions = await new CommandLineAudit({ database, clock, log }).recordChangeOfAll(
    'restore',
    { resource: 'backups', fields },
    async (recordStart) => {
      await recordStart();
      onStep('closing executions');
      const closed = await expireRestoredExecutions({ database, clock, backupCreatedAt: manifest.createdAt });
      if (revokesKeys) await liveKeys.revoke(keys);
      return closed;
    },
  );
  onStep('counting rows');
  const { schema: after } = await database.describe();
  return { schema: { before, after }, rows: await countRows(database.db), executions, keys };
}

/** Throws `backup_corrupt` if the database has structural errors. */
async function assertIntact(database: Database, now: number): Promise<void> {
  const corruption = (await database.checks(now)).find(({ check, state }) => check === 'integrity' && state === 'fail');
  if (corruption) throw backupDatabaseCorrupt(corruption.found);
}
