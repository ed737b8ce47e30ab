import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path';
import { getCode } from '../../kernel/errorUtils';
import { UsageError } from '../exit';

/** A script of the folder, with its example file. */
export interface FoundScript {
  /** The path relative to the folder. */
  readonly name: string;
  readonly file: string;
  /** Undefined: no example file. */
  readonly examples: string | undefined;
}

/** A link or folder that cannot be read. */
export interface UnreadableEntry {
  readonly name: string;
  readonly problem: string;
}

/**
 * Finds every script in a folder and its subfolders, sorted by path, and the entries that cannot be read. Throws
 * UsageError if the folder itself cannot be read.
 */
export function findScripts(folder: string): (FoundScript | UnreadableEntry)[] {
  const unreadable: UnreadableEntry[] = [];
  const files = listScripts(folder, (path, error) => {
    const code = getCode(error);
    if (path === folder)
      throw new UsageError(`${folder} cannot be read (${code}): use a folder of scripts`, { cause: error });
    unreadable.push({ name: relative(folder, path), problem: `cannot be read (${code}): repair or remove it` });
  });
  const filesByFolder = Map.groupBy(files, (file) => dirname(file));
  const scripts = files.map((file) => ({
    name: relative(folder, file),
    file,
    examples: findExampleFile(file, filesByFolder.get(dirname(file))?.length === 1),
  }));
  return [...scripts, ...unreadable].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Finds the example file of a script: `valve.examples.json` or `valve.json` for `valve.js`, or `examples.json` if it is
 * the only script of its folder.
 */
function findExampleFile(script: string, isOnlyScript: boolean): string | undefined {
  const stem = join(dirname(script), basename(script, extname(script)));
  const candidates = [
    `${stem}.examples.json`,
    `${stem}.json`,
    ...(isOnlyScript ? [join(dirname(script), 'examples.json')] : []),
  ];
  return candidates.find((candidate) => existsSync(candidate));
}

/**
 * Lists the scripts in a folder and its subfolders, without hidden ones and node_modules. Links to folders are not
 * followed: they can form a cycle. `onUnreadable` is called for each entry that cannot be read.
 */
function listScripts(folder: string, onUnreadable: (path: string, error: unknown) => void): string[] {
  const collectScripts = (path: string, entry?: Dirent): string[] => {
    try {
      if (entry && !entry.isDirectory()) return isScript(entry, path) ? [path] : [];
      return readdirSync(path, { withFileTypes: true }).flatMap((inner) =>
        inner.name.startsWith('.') || inner.name === 'node_modules'
          ? []
          : collectScripts(join(path, inner.name), inner),
      );
    } catch (error) {
      onUnreadable(path, error);
      return [];
    }
  };
  return collectScripts(folder);
}

/** Whether an entry is a script: a file with the extension `.js`, or a link to one. Throws for a broken link. */
function isScript(entry: Dirent, path: string): boolean {
  return extname(entry.name) === '.js' && (entry.isFile() || (entry.isSymbolicLink() && statSync(path).isFile()));
}
