import type { Command } from 'commander';
import type * as databaseModule from '../database';
import { readAsset } from '../kernel/assets';
import { getProgramVersion, sqliteVersion } from '../kernel/programVersion';
import { isBinary } from '../kernel/executable';
import { print, printJson, showRecord } from './output';
import { withJson } from './options';

export { getProgramVersion } from '../kernel/programVersion';

const loadDatabase = (): typeof databaseModule => require('../database');

/** Adds `plantroom version`. */
export function addVersion(program: Command): void {
  withJson(program.command('version').description('Show version information'))
    .option('--notices', 'print the licenses of the third-party software in Plantroom')
    .action((options: { json?: boolean; notices?: boolean }) => {
      if (options.notices) return showNotices(options);
      const details = {
        ...getProgramVersion(),
        sqlite: sqliteVersion,
        schema: loadDatabase().CURRENT_SCHEMA,
        form: isBinary ? 'single binary' : 'checkout',
      };
      return showRecord(details, options);
    });
}

function showNotices({ json }: { readonly json?: boolean }): void {
  const notices = readAsset('THIRD_PARTY_NOTICES.txt').toString().trimEnd();
  if (json) printJson({ notices });
  else print(notices);
}
