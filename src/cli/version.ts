import type { Command } from 'commander';
import { version } from '../../package.json';
import { showRecord } from './output';
import { withJson } from './options';

// Set by the build; tests run without it.
declare const PLANTROOM_COMMIT: string | undefined;

/** What this program is. */
export function programVersion(): { version: string; commit: string; node: string; platform: string } {
  return { version, commit: typeof PLANTROOM_COMMIT === 'string' ? PLANTROOM_COMMIT : 'unknown', node: process.versions.node, platform: `${process.platform}-${process.arch}` };
}

/** `plantroom version`. */
export function addVersion(program: Command): void {
  withJson(program.command('version').description('say which Plantroom this is')).action((options: { json?: boolean }) => showRecord(programVersion(), options));
}
