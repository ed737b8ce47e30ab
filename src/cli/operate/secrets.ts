import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type * as app from '../../server';
import type * as connectionsModule from '../../connections';
import type { RotatedSecrets } from '../../connections';
import type * as databaseModule from '../../database';
import { parseSecretKey, KEY_BYTES } from '../../kernel/parseSecretKey';
import { withAdminContext } from '../core';
import { UsageError } from '../exit';
import { createCommandLog } from '../log';
import { getConfig, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { note, showRecord } from '../output';

interface RotateFlags extends ConfigFlags {
  readonly newKeyFile?: string;
}

const loadServer = (): typeof app => require('../../server');
const loadConnections = (): typeof connectionsModule => require('../../connections');
const loadDatabase = (): typeof databaseModule => require('../../database');

const MORE = `
Stop the server first: a running server would keep using the old key. If the command is interrupted, nothing is lost: run it again to continue.
The old key is kept as secrets.key.old, because older backups need it; delete it when you no longer keep such backups.

If the key is set in the configuration (PLANTROOM_SECRETS_KEY) or its file is not writable, create the new key yourself:
  openssl rand -base64 32 > new.key
  plantroom secrets rotate --new-key-file new.key
Then replace the old key with the content of new.key before you start the server.`;

/** Adds `plantroom secrets rotate`. */
export function addSecrets(program: Command): void {
  const group = program.command('secrets').description('Manage the key that encrypts the secrets of connections');
  withConfig(
    withJson(
      group
        .command('rotate')
        .description('Create a new key and encrypt all secrets of connections with it; the server must be stopped'),
    ),
    [...DATA_SETTINGS, 'secrets.key', 'secrets.keyFile'],
  )
    .option(
      '--new-key-file <file>',
      'file with the new key, 32 bytes in base64; afterwards, replace the old key with it yourself',
    )
    .addHelpText('after', MORE)
    .action((flags: RotateFlags) => runRotate(flags));
}

/**
 * Runs `plantroom secrets rotate`. It locks the data folder, its backups and a PostgreSQL database, so that nothing
 * else uses the old key meanwhile.
 */
async function runRotate(flags: RotateFlags): Promise<void> {
  const { config } = getConfig(flags);
  const newKey = flags.newKeyFile === undefined ? undefined : readNewKey(flags.newKeyFile);
  const dataLock = await loadDatabase().lockDataFolder(config.data.dir);
  let backupLock: ReturnType<typeof app.acquireBackupLock> | undefined;
  try {
    // A backup must not contain secrets that one key encrypted and the file of the other key.
    backupLock = loadServer().acquireBackupLock(config.data.dir);
    const rotated = await withAdminContext(flags, async (admin) => {
      // A server with another data folder may use this database.
      if (config.database.url !== '') await admin.database.acquireOwnership(() => {});
      const options = {
        ...config.secrets,
        dataDir: config.data.dir,
        log: createCommandLog(config.log.level),
        database: admin.database,
        newKey,
      };
      return await admin.audit.recordChangeOfAll(
        'secrets rotate',
        { resource: 'connections' },
        async (begin) => await loadConnections().rotateSecrets({ ...options, begin }),
      );
    });
    showRecord(
      { connections: rotated.connections, keyFile: rotated.keyFile ?? null, oldKeyFile: rotated.oldKeyFile ?? null },
      flags,
    );
    note(formatNextStep(rotated, flags.newKeyFile));
  } finally {
    backupLock?.release();
    dataLock.release();
  }
}

/** Reads the key of --new-key-file. Throws UsageError if it cannot be read or is not a key. */
function readNewKey(file: string): Buffer {
  let text: string;
  try {
    text = readFileSync(file, 'latin1');
  } catch (error) {
    throw new UsageError(
      `the new key cannot be read from ${file} (${(error as NodeJS.ErrnoException).code}); create a key: openssl rand -base64 32 > new.key`,
      { cause: error },
    );
  }
  const key = parseSecretKey(text);
  if (!key)
    throw new UsageError(
      `${file} does not contain ${KEY_BYTES} bytes in base64; create a key: openssl rand -base64 32 > new.key`,
    );
  return key;
}

/** Describes what the operator must do next. An operator who passed a key must install it. */
function formatNextStep({ keyFile }: RotatedSecrets, newKeyFile: string | undefined): string {
  if (newKeyFile !== undefined)
    return `Replace the old key (PLANTROOM_SECRETS_KEY, or the key file) with the content of ${newKeyFile}, then start the server. Keep the old key as long as you keep backups that need it.`;
  return `Start the server, then update your safe copy of ${keyFile}. If others may know the old key, change the secrets too: the old key decrypts older copies of the database.`;
}
