import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { codeOf } from '../../kernel/thrown';
import { isMemberPath } from './manifestText';

/** A file that goes into a backup. */
export interface SourceFile {
  /** As a member. */
  readonly path: string;
  /** Where it lies. */
  readonly file: string;
  readonly bytes: number;
}

/** Where the files beside the database and the pictures are. */
export interface SourcePlaces {
  readonly dataDir: string;
  /** The key of the secrets, which may not be there. */
  readonly keyFile: string;
  /** The plantroom.yaml that is used; undefined: none. */
  readonly configFile: string | undefined;
}

/** A file of a key for secrets, as it was when it was read. */
export interface KeyFile {
  /** As a member. */
  readonly path: 'secrets.key' | 'secrets.key.next';
  readonly content: Buffer;
}

/** Those that are there: the key, and the one of a change of the key that did not come to its end, which some secrets may need already. */
export function readKeyFiles(keyFile: string): readonly KeyFile[] {
  return (['', '.next'] as const).flatMap((end) => {
    const file = `${keyFile}${end}`;
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return [];
    return [{ path: `secrets.key${end}` as const, content: readFileSync(file) }];
  });
}

/** Copies the small files that may be written anew at any time (certificates, configuration) and the keys as they were read into `folder`, and names the copies. */
export function copySmallFiles({ dataDir, configFile }: SourcePlaces, keys: readonly KeyFile[], folder: string): readonly SourceFile[] {
  for (const { path, content } of keys) writeFileSync(join(folder, path), content, { mode: 0o600 });
  const certificates = namesIn(join(dataDir, 'tls')).map((name) => [`tls/${name}`, join(dataDir, 'tls', name)] as const);
  const wanted = [...certificates, ...(configFile === undefined ? [] : [['plantroom.yaml', configFile] as const])];
  const copied = wanted.flatMap(([path, from]) => {
    if (!isMemberPath(path) || !existsSync(from) || !statSync(from).isFile()) return [];
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    copyFileSync(from, file);
    return [sourceFile(path, file)];
  });
  return [...copied, ...keys.map(({ path }) => sourceFile(path, join(folder, path)))];
}

/** Those of the files that are there, and the paths of the others. */
export function findFiles(paths: readonly string[], dataDir: string): { readonly files: readonly SourceFile[]; readonly missing: readonly string[] } {
  const files: SourceFile[] = [];
  const missing: string[] = [];
  for (const path of paths) {
    const file = join(dataDir, path);
    const stat = statSync(file, { throwIfNoEntry: false });
    if (stat?.isFile() === true) files.push({ path, file, bytes: stat.size });
    else missing.push(path);
  }
  return { files, missing };
}

/** One that is there. */
export function sourceFile(path: string, file: string): SourceFile {
  return { path, file, bytes: statSync(file).size };
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => !name.endsWith('.new')).toSorted();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}
