import { resolve } from 'node:path';
import type { LiveKey } from '../../access';
import type { PreparedDatabase, RestoreResult, RestoreOptions, RollbackResult } from '../../backup';
import { getProgramVersion } from '../../kernel/programVersion';
import { print, printJson, showRecord, showTable, type OutputOptions } from '../output';
import { toKeyRow, formatKey } from '../people/keyShown';

const KEY_COLUMNS = ['id', 'organization', 'owner', 'name', 'prefix', 'scopes', 'lastUsedAt', 'expiresAt'] as const;

/** Prints the result of a restore and the next steps. */
export function showRestored(restored: RestoreResult, options: RestoreOptions, output: OutputOptions): void {
  const { configuration, keys } = restored;
  const dataDir = resolve(options.dataDir);
  if (output.json)
    return printJson({ ...toRecord(restored, restored, options), dataDir, configuration: configuration ?? null });
  print(`Restored the backup of ${restored.manifest.createdAt} into ${dataDir}.\n`);
  showDetails(getReportFields(restored), restored, { ...options, source: 'backup', isDryRun: false });
  if (configuration !== undefined)
    print(
      `\nThe configuration of the backup was saved as ${configuration}; it is not used. Compare it with the configuration of this server.`,
    );
  print('\nNext: make sure that the old server can never start again, then start this one: plantroom serve');
  if (options.revokesKeys && keys.length > 0) print(formatNewKeyAdvice(keys));
}

/** Prints what a restore would do. */
export function showRestoreDryRun(
  {
    manifest,
    prepared,
  }: { readonly manifest: RestoreResult['manifest']; readonly prepared: PreparedDatabase | undefined },
  options: RestoreOptions,
  output: OutputOptions,
): void {
  if (output.json) return printJson({ ...toRecord({ manifest }, prepared, options), dryRun: true });
  print(`The backup of ${manifest.createdAt} is valid. Nothing was changed.\n`);
  if (prepared === undefined)
    return showRecord(
      { ...getReportFields({ manifest }), database: 'a PostgreSQL dump: its content is checked during the restore' },
      {},
    );
  showDetails(getReportFields({ manifest }), prepared, { ...options, source: 'backup', isDryRun: true });
}

/** Prints what a rollback to a copy of the database, made before a migration, did, or (without `movedTo`) would do. */
export function showRollback(
  rollback: Omit<RollbackResult, 'movedTo'> & { readonly movedTo?: string },
  options: RestoreOptions,
  output: OutputOptions,
): void {
  const { createdAt, movedTo, keys } = rollback;
  const isDryRun = movedTo === undefined;
  const dataDir = resolve(options.dataDir);
  const record = { file: options.file, copy: { createdAt }, ...toPreparedRecord(rollback, options) };
  if (output.json) return printJson(isDryRun ? { ...record, dryRun: true } : { ...record, dataDir, movedTo });
  print(
    isDryRun
      ? `The copy of ${createdAt} is valid. Nothing was changed.\n`
      : `Rolled back to the copy of ${createdAt} in ${dataDir}. Images, certificates and keys were not changed.\n`,
  );
  showDetails({}, rollback, { ...options, source: 'copy', isDryRun });
  if (isDryRun) return;
  print(`\nThe previous database was moved to ${movedTo}; delete it when you no longer need it.`);
  print(
    `Next: start the server with this version of Plantroom, ${getProgramVersion().version}; a newer one upgrades the database again.`,
  );
  if (options.revokesKeys && keys.length > 0) print(formatNewKeyAdvice(keys));
}

/** What showDetails describes: a restore of a backup or a rollback to a copy, or its dry run. */
interface DetailsOptions extends Pick<RestoreOptions, 'revokesKeys'> {
  readonly source: 'backup' | 'copy';
  readonly isDryRun: boolean;
}

/** Prints the state of the restored (or to be restored) database, and the API keys that are valid in it. */
function showDetails(
  details: Readonly<Record<string, string>>,
  prepared: PreparedDatabase,
  { revokesKeys, source, isDryRun }: DetailsOptions,
): void {
  const { schema, rows, executions, keys } = prepared;
  const endedExecutions = [...executions].map(([state, count]) => `${count} ${state}`).join(', ');
  showRecord(
    {
      ...details,
      schema: schema.before === schema.after ? schema.after : `${schema.before}, upgraded to ${schema.after}`,
      rows: String([...rows.values()].reduce((total, count) => total + count, 0)),
      'executions ended': endedExecutions || 'none',
    },
    {},
  );
  if (keys.length === 0) return print(`\nNo API key ${isDryRun ? 'would be' : 'is'} valid.`);
  print(
    revokesKeys
      ? `\nThese API keys would be valid again; they ${isDryRun ? 'would be' : 'are'} revoked:`
      : `\nThese API keys ${isDryRun ? 'would be' : 'are'} valid again, including keys that were revoked after the ${source} was created (the ${source} does not contain this):`,
  );
  showTable(
    keys.map((key) => ({ ...toKeyRow(key, Date.now()), organization: key.organizationName, owner: key.ownerName })),
    KEY_COLUMNS,
    {},
  );
  if (!revokesKeys)
    print(
      isDryRun
        ? '\nTo revoke all of them, add --revoke-keys.'
        : '\nRevoke keys that must not be valid: plantroom keys revoke <id>, or restore again with --revoke-keys.',
    );
}

/** Returns what to print about the backup itself. */
function getReportFields({ manifest: { program, members } }: Pick<RestoreResult, 'manifest'>): Record<string, string> {
  const images = members.filter(({ path }) => path.startsWith('media/'));
  return {
    'created by': `Plantroom ${program.version} (${program.commit})`,
    files: `${members.length}, including ${images.length} image files`,
    size: `${Math.ceil(members.reduce((total, { bytes }) => total + bytes, 0) / 1024 / 1024)} MiB`,
  };
}

/** Returns the backup, and the database if it was prepared, as JSON. */
function toRecord(
  { manifest }: Pick<RestoreResult, 'manifest'>,
  prepared: PreparedDatabase | undefined,
  options: RestoreOptions,
): Record<string, unknown> {
  const { members, ...backup } = manifest;
  const record = {
    file: options.file,
    backup: { ...backup, files: members.length, bytes: members.reduce((total, { bytes }) => total + bytes, 0) },
  };
  return prepared === undefined ? record : { ...record, ...toPreparedRecord(prepared, options) };
}

/** Returns the state of a prepared database as JSON. */
function toPreparedRecord(
  { schema, rows, executions, keys }: PreparedDatabase,
  { revokesKeys }: RestoreOptions,
): Record<string, unknown> {
  const keyRecords = keys.map((key) => ({
    ...formatKey(key),
    organizationName: key.organizationName,
    ownerName: key.ownerName,
  }));
  return {
    schema,
    rows: Object.fromEntries(rows),
    executionsEnded: Object.fromEntries(executions),
    keys: keyRecords,
    keysRevoked: revokesKeys,
  };
}

function formatNewKeyAdvice(keys: readonly LiveKey[]): string {
  const [first] = keys;
  return `All keys are revoked. Create a new key: plantroom keys create --organization ${first?.organizationId ?? '<id>'} --name operator --all-scopes --all-connections --admin`;
}
