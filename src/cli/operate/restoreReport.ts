import { resolve } from 'node:path';
import type { LiveKey } from '../../access';
import type { PreparedDatabase, Restored, RestoreOptions, WentBack } from '../../operations';
import { say, sayJson, showRecord, showTable, type OutputOptions } from '../output';
import { keyRow, keyShown, type KeyRow } from '../people/keyShown';

const KEY_COLUMNS = ['id', 'organization', 'owner', 'name', 'prefix', 'scopes', 'lastUsedAt', 'expiresAt'] as const;

/** Shows what a restore did and what to do next. */
export function showRestored(restored: Restored, options: RestoreOptions, output: OutputOptions): void {
  const { configuration, keys } = restored;
  const dataDir = resolve(options.dataDir);
  if (output.json) return sayJson({ ...recordOf(restored, restored, options), dataDir, configuration: configuration ?? null });
  say(`Restored the backup of ${restored.manifest.createdAt} into ${dataDir}.\n`);
  showFacts(factsOf(restored), restored, options);
  if (configuration !== undefined) say(`\nThe configuration of the backup is ${configuration}; it has no effect there. Compare it with the one that this server is started with.`);
  say('\nNext: see to it that the old server does not run any more, then start this one: plantroom serve');
  if (options.revokesKeys && keys.length > 0) say(newKeyAdvice(keys));
}

/** Shows what a restore would do. */
export function showRehearsal({ manifest, prepared }: { readonly manifest: Restored['manifest']; readonly prepared: PreparedDatabase | undefined }, options: RestoreOptions, output: OutputOptions): void {
  if (output.json) return sayJson({ ...recordOf({ manifest }, prepared, options), dryRun: true });
  say(`The backup of ${manifest.createdAt} is whole. Nothing was changed.\n`);
  if (prepared === undefined) return showRecord({ ...factsOf({ manifest }), database: 'a dump of PostgreSQL: what is in it shows when it is restored' }, {});
  showFacts(factsOf({ manifest }), prepared, options);
}

/** Shows what going back to a copy of the database did, or (without `movedTo`) would do. */
export function showWentBack(wentBack: Omit<WentBack, 'movedTo'> & { readonly movedTo?: string }, options: RestoreOptions, output: OutputOptions): void {
  const { createdAt, movedTo, keys } = wentBack;
  const dataDir = resolve(options.dataDir);
  const record = { file: options.file, copy: { createdAt }, ...preparedRecord(wentBack, options) };
  if (output.json) return sayJson(movedTo === undefined ? { ...record, dryRun: true } : { ...record, dataDir, movedTo });
  say(movedTo === undefined ? `The copy of ${createdAt} is whole. Nothing was changed.\n` : `Went back to the copy of ${createdAt} in ${dataDir}. Pictures, certificates and keys are as they were.\n`);
  showFacts({}, wentBack, options);
  if (movedTo === undefined) return;
  say(`\nThe database that was there is ${movedTo}; remove it when you are sure.`);
  say('Next: start this version of the server.');
  if (options.revokesKeys && keys.length > 0) say(newKeyAdvice(keys));
}

function showFacts(facts: Readonly<Record<string, string>>, prepared: PreparedDatabase, options: RestoreOptions): void {
  const { schema, rows, executions, keys } = prepared;
  const ended = [...executions].map(([state, count]) => `${count} ${state}`).join(', ');
  showRecord({ ...facts, schema: schema.before === schema.after ? schema.after : `${schema.before}, brought up to ${schema.after}`, rows: String(sum(rows)), 'executions ended': ended || 'none' }, {});
  if (keys.length === 0) return say('\nNo API key works.');
  say(options.revokesKeys ? '\nThese API keys would work again; they are revoked:' : '\nThese API keys work again, also those that were revoked after the backup was made, which nobody can tell from it:');
  showTable(keys.map(rowOf), KEY_COLUMNS, {});
  if (!options.revokesKeys) say('\nRevoke what should not work: plantroom keys revoke <id>, or restore with --revoke-keys.');
}

function factsOf({ manifest: { program, members } }: Pick<Restored, 'manifest'>): Record<string, string> {
  const pictures = members.filter(({ path }) => path.startsWith('media/'));
  return { 'made by': `Plantroom ${program.version} (${program.commit})`, files: `${members.length}, of them ${pictures.length} of pictures`, size: `${Math.ceil(members.reduce((total, { bytes }) => total + bytes, 0) / 1024 / 1024)} MiB` };
}

function recordOf({ manifest }: Pick<Restored, 'manifest'>, prepared: PreparedDatabase | undefined, options: RestoreOptions): Record<string, unknown> {
  const { members, ...backup } = manifest;
  const record = { file: options.file, backup: { ...backup, files: members.length, bytes: members.reduce((total, { bytes }) => total + bytes, 0) } };
  return prepared === undefined ? record : { ...record, ...preparedRecord(prepared, options) };
}

function preparedRecord({ schema, rows, executions, keys }: PreparedDatabase, { revokesKeys }: RestoreOptions): Record<string, unknown> {
  const keyRecords = keys.map((key) => ({ ...keyShown(key), organizationName: key.organizationName, ownerName: key.ownerName }));
  return { schema, rows: Object.fromEntries(rows), executionsEnded: Object.fromEntries(executions), keys: keyRecords, keysRevoked: revokesKeys };
}

function rowOf(key: LiveKey): KeyRow & { readonly organization: string; readonly owner: string } {
  return { ...keyRow(key, Date.now()), organization: key.organizationName, owner: key.ownerName };
}

function newKeyAdvice(keys: readonly LiveKey[]): string {
  const [first] = keys;
  return `All keys are revoked. Make a new one: plantroom keys create --organization ${first?.organizationId ?? '<id>'} --name operator --all-scopes --all-connections --admin`;
}

function sum(rows: ReadonlyMap<string, number>): number {
  return [...rows.values()].reduce((total, count) => total + count, 0);
}
