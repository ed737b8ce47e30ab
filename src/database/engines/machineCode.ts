import { statSync } from 'node:fs';
import { assetPath } from '../../kernel/assets';
import { DomainError } from '../../kernel/errors';
import { isBinary } from '../../kernel/thisProgram';
import { messageOf } from '../translate';
import { laidEngine, removeOtherEngines, type EngineFile } from './laidEngine';

/** The asset that holds SQLite's machine code. */
const ENGINE = 'better_sqlite3.node';

let loaded: { readonly exports: object; readonly file: string; readonly path: string; readonly inode: number } | undefined;

/**
 * SQLite's machine code. The first call decides which file is loaded, once for the process or the thread: `given`; in a checkout what the
 * build laid; in the single binary what lies beside it, or what is laid below `folder`. Throws `engine_not_laid`, `engine_not_loaded`.
 */
export function loadEngine(folder: string, given?: string): object {
  loaded ??= load(given === undefined && isBinary ? laidEngine(ENGINE, folder) : plainFile(given ?? assetPath(ENGINE)));
  return loaded.exports;
}

/** Which file this thread has loaded, by the path that another thread of the process loads it by; an empty path: none yet. */
export function loadedEngine(): { readonly file: string; readonly inode: number } {
  return { file: loaded?.path ?? '', inode: loaded?.inode ?? 0 };
}

/** After a start that went well: removes what earlier versions of the single binary laid, as far as that is possible. */
export function removeOldEngines(): void {
  if (!isBinary || !loaded) return;
  try {
    removeOtherEngines(loaded.file);
  } catch {
    // It is 2 MB that nobody runs, and the next start tries again.
  }
}

function plainFile(file: string): EngineFile {
  return { file, path: file };
}

function load({ file, path }: EngineFile): NonNullable<typeof loaded> {
  const module: { exports: object } = { exports: {} };
  const inode = statSync(path).ino;
  try {
    process.dlopen(module, path);
  } catch (error) {
    throw notLoaded(file, error);
  }
  return { exports: module.exports, file, path, inode };
}

function notLoaded(file: string, cause: unknown): DomainError {
  const text = messageOf(cause);
  const help = text.includes('failed to map segment')
    ? 'the file system that it lies on lets no program run; mount it without noexec, or put better_sqlite3.node of this version beside the program'
    : 'it does not fit this machine; take the program that was built for it';
  return new DomainError('unavailable', 'engine_not_loaded', `the machine code of SQLite cannot be loaded (${text}): ${help}`, { metadata: { file }, cause });
}
