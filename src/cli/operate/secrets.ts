import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type * as app from '../../app';
import type * as connectionsModule from '../../connections';
import type { RotatedSecrets } from '../../connections';
import type * as databaseModule from '../../database';
import { findKeyIn, KEY_BYTES } from '../../kernel/findKeyIn';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { commandLog } from '../log';
import { configOf, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { note, showRecord } from '../output';

interface RotateFlags extends ConfigFlags {
  readonly newKeyFile?: string;
}

const lazyApp = (): typeof app => require('../../app');
const lazyConnections = (): typeof connectionsModule => require('../../connections');
const lazyDatabase = (): typeof databaseModule => require('../../database');

const MORE = `
Stop the server first: it would go on with the old key. Whenever this is interrupted, nothing is lost: run it again, and it goes on.
The old key is kept as secrets.key.old, since older backups of the database open with it; delete it when there are none of these.

Where the key is given by the configuration (PLANTROOM_SECRETS_KEY), or its file cannot be written, make the new one yourself:
  openssl rand -base64 32 > new.key
  plantroom secrets rotate --new-key-file new.key
and put its content in the place of the old one before the server starts.`;

/** Adds `plantroom secrets rotate`. */
export function addSecrets(program: Command): void {
  const group = program.command('secrets').description('the key that the secrets of connections are encrypted with');
  withConfig(withJson(group.command('rotate').description('make a new key and encrypt all secrets of connections with it; the server has to be stopped')), [...DATA_SETTINGS, 'secrets.key', 'secrets.keyFile'])
    .option('--new-key-file <file>', 'a file with the new key, 32 bytes in base64, which you put in its place afterwards')
    .addHelpText('after', MORE)
    .action((flags: RotateFlags) => runRotate(flags));
}

async function runRotate(flags: RotateFlags): Promise<void> {
  const { config } = configOf(flags);
  const newKey = flags.newKeyFile === undefined ? undefined : readNewKey(flags.newKeyFile);
  const lock = await lazyDatabase().lockDataFolder(config.data.dir);
  let turn: ReturnType<typeof app.takeBackupTurn> | undefined;
  try {
    turn = lazyApp().takeBackupTurn(config.data.dir); // a backup with secrets of the one key and the file of the other would open nothing
    const rotated = await withCore(flags, async (core) => {
      if (config.database.url !== '') await core.database.own(() => {}); // its server may have another data folder
      const options = { ...config.secrets, dataDir: config.data.dir, log: commandLog(config.log.level), database: core.database, newKey };
      return await core.audit.changeOfAll('secrets rotate', { resource: 'connections' }, async (begin) => await lazyConnections().rotateSecrets({ ...options, begin }));
    });
    showRecord({ connections: rotated.connections, keyFile: rotated.keyFile ?? null, oldKeyFile: rotated.oldKeyFile ?? null }, flags);
    note(whatNext(rotated, flags.newKeyFile));
  } finally {
    turn?.release();
    lock.release();
  }
}

function readNewKey(file: string): Buffer {
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch (error) {
    throw new UsageError(`the new key cannot be read from ${file} (${(error as NodeJS.ErrnoException).code}); make one: openssl rand -base64 32 > new.key`, { cause: error });
  }
  const key = findKeyIn(text);
  if (!key) throw new UsageError(`${file} does not hold ${KEY_BYTES} bytes in base64; make a key: openssl rand -base64 32 > new.key`);
  return key;
}

function whatNext({ keyFile }: RotatedSecrets, newKeyFile: string | undefined): string {
  if (keyFile === undefined) return `Now put the content of ${newKeyFile} in the place of the old key (PLANTROOM_SECRETS_KEY, or the file of the key), then start the server. Keep the old one as long as there are backups that open with it.`;
  return `Start the server, then copy ${keyFile} to where you keep its copy. If the old key may be known to others, change the secrets themselves too: copies of the database made before open with it.`;
}
