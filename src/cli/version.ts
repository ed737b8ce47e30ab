import type { Command } from 'commander';
import type * as databaseModule from '../database';
import { programVersion, sqliteVersion } from '../kernel/programVersion';
import { isBinary } from '../kernel/thisProgram';
import { showRecord } from './output';
import { withJson } from './options';

export { programVersion } from '../kernel/programVersion';

const lazyDatabase = (): typeof databaseModule => require('../database');

/** `plantroom version`. */
export function addVersion(program: Command): void {
  withJson(program.command('version').description('say which Plantroom this is')).action((options: { json?: boolean }) => {
    const facts = { ...programVersion(), sqlite: sqliteVersion, schema: lazyDatabase().NEWEST_SCHEMA, form: isBinary ? 'single binary' : 'checkout' };
    showRecord(facts, options);
  });
}
