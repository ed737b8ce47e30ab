import { statSync } from 'node:fs';
import { assetPath } from '../../kernel/assets';
import { DomainError } from '../../kernel/errors';
import { isBinary } from '../../kernel/executable';
import { formatMessage } from '../translate';
import { installNativeModule, removeOtherNativeModules, type NativeModuleFile } from './nativeModuleInstaller';

/** The asset that contains SQLite's native module. */
const MODULE_NAME = 'better_sqlite3.node';

/** The loaded module. `path` is what was loaded; it may be a descriptor of `file` (see NativeModuleFile). */
let loaded:
  { readonly exports: object; readonly file: string; readonly path: string; readonly inode: number } | undefined;

/**
 * Loads SQLite's native module. The first call decides which file is loaded, once per process or thread: `moduleFile`;
 * in a checkout the file of the build; in the single binary the file next to it, or the one installed below `folder`.
 * Throws `native_module_install_failed`, `native_module_load_failed`.
 */
export function loadNativeModule(folder: string, moduleFile?: string): object {
  loaded ??= loadModule(
    moduleFile === undefined && isBinary
      ? installNativeModule(MODULE_NAME, folder)
      : toModuleFile(moduleFile ?? assetPath(MODULE_NAME)),
  );
  return loaded.exports;
}

/**
 * Returns the path and the inode number of the native module that this thread has loaded; another thread of the process
 * can load the same path. An empty path and inode 0 mean that none is loaded yet.
 */
export function getLoadedModule(): { readonly file: string; readonly inode: number } {
  return { file: loaded?.path ?? '', inode: loaded?.inode ?? 0 };
}

/** Removes native modules of earlier versions of the single binary after a successful start, as far as possible. */
export function removeOldNativeModules(): void {
  if (!isBinary || !loaded) return;
  try {
    removeOtherNativeModules(loaded.file);
  } catch {
    // An unused module has only 2 MB, and the next start tries again.
  }
}

function toModuleFile(file: string): NativeModuleFile {
  return { file, path: file };
}

/** Loads the file into the process. Throws `native_module_load_failed`. */
function loadModule({ file, path }: NativeModuleFile): NonNullable<typeof loaded> {
  const module: { exports: object } = { exports: {} };
  const inode = statSync(path).ino;
  try {
    process.dlopen(module, path);
  } catch (error) {
    throw moduleLoadFailed(file, error);
  }
  return { exports: module.exports, file, path, inode };
}

/**
 * Creates the error `native_module_load_failed`, which says whether the file system forbids programs or the file is for
 * another machine.
 */
function moduleLoadFailed(file: string, cause: unknown): DomainError {
  const text = formatMessage(cause);
  const advice = text.includes('failed to map segment')
    ? 'its file system does not allow programs to run. Mount it without noexec, or put better_sqlite3.node of this version next to the program'
    : 'it does not fit this machine. Use the program that was built for it';
  return new DomainError(
    'unavailable',
    'native_module_load_failed',
    `the native module of SQLite cannot be loaded (${text}): ${advice}`,
    { metadata: { file }, cause },
  );
}
