import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../../config';
import { SQLITE_FILE } from '../../database';
import { fail, ok, type Finding } from './check';
import { canWriteFolder } from './pathFacts';

const CHECK = 'bootstrap key file';

/** Checks that the first start can write the first API key. After the first start the setting has no effect. */
export function checkFirstKeyFile({ bootstrap: { keyFile }, data, database }: Config): Finding[] {
  if (keyFile === '' || database.url !== '' || existsSync(join(data.dir, SQLITE_FILE))) return [];
  const isOccupied = (statSync(keyFile, { throwIfNoEntry: false })?.size ?? 0) > 0;
  if (isOccupied)
    return [
      fail(
        CHECK,
        `${keyFile} already exists, so the first start fails`,
        'move or delete it, or set PLANTROOM_BOOTSTRAP_KEY_FILE to another file',
      ),
    ];
  const folder = dirname(keyFile);
  if (!existsSync(folder) || !canWriteFolder(folder))
    return [
      fail(
        CHECK,
        `${folder} does not exist, or this user cannot write to it`,
        "create the folder for the server's user, or set PLANTROOM_BOOTSTRAP_KEY_FILE to a file in another folder",
      ),
    ];
  return [ok(CHECK, `the first start writes ${keyFile}`)];
}
