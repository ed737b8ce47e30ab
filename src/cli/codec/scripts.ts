import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path';
import { UsageError } from '../exit';

/** A script of the folder, with the file of its examples. */
export interface FoundScript {
  /** Its path, seen from the folder. */
  readonly name: string;
  readonly file: string;
  /** Undefined: there is none beside it. */
  readonly examples: string | undefined;
}

/** Finds every script of a folder and of the folders in it, in the order of their paths. Throws UsageError when it cannot be read. */
export function findScripts(folder: string): FoundScript[] {
  const files = filesOf(folder).toSorted();
  const perFolder = Map.groupBy(files, (file) => dirname(file));
  return files.map((file) => ({ name: relative(folder, file), file, examples: examplesOf(file, perFolder.get(dirname(file))?.length === 1) }));
}

function examplesOf(script: string, isOnly: boolean): string | undefined {
  const stem = join(dirname(script), basename(script, extname(script)));
  const candidates = [`${stem}.examples.json`, `${stem}.json`, ...(isOnly ? [join(dirname(script), 'examples.json')] : [])];
  return candidates.find((candidate) => existsSync(candidate));
}

// Links to folders are not followed: they may lead in a circle.
function filesOf(folder: string): string[] {
  return entriesOf(folder).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.') || entry.name === 'node_modules') return [];
    if (entry.isDirectory()) return filesOf(path);
    const isFile = entry.isFile() || (entry.isSymbolicLink() && statSync(path, { throwIfNoEntry: false })?.isFile() === true);
    return isFile && extname(entry.name) === '.js' ? [path] : [];
  });
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    throw new UsageError(`${folder} cannot be read (${(error as NodeJS.ErrnoException).code}); give a folder of scripts`, { cause: error });
  }
}
