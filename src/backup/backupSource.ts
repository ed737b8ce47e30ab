import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { getCode } from '../kernel/errorUtils';
import { isMemberPath } from './manifestText';

/** A file to include in a backup. */
export interface SourceFile {
  /** Its path in the backup, for example `media/<organization>/ab/abcd...`. */
  readonly path: string;
  /** The path to read it from. */
  readonly file: string;
  readonly bytes: number;
}

/** The locations of the other files, besides the database and the images. */
export interface SourceLocations {
  readonly dataDir: string;
  /** The file of the key for secrets. It may be missing. */
  readonly keyFile: string;
  /** The configuration file in use; undefined: none. */
  readonly configFile: string | undefined;
}

/** A key file for secrets, with the content at the time it was read. */
interface KeyFile {
  /** Its path in the backup. */
  readonly path: 'secrets.key' | 'secrets.key.next';
  readonly content: Buffer;
}

/**
 * Reads the existing keys: the current one, and the one of an unfinished key rotation, which some secrets may already
 * need.
 */
export function readKeyFiles(keyFile: string): readonly KeyFile[] {
  return (['', '.next'] as const).flatMap((suffix) => {
    const file = `${keyFile}${suffix}`;
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return [];
    return [{ path: `secrets.key${suffix}` as const, content: readFileSync(file) }];
  });
}

/**
 * Copies small files that may be rewritten at any time (certificates, configuration), and the keys as they were read,
 * into `folder`; returns the copies.
 */
export function copySmallFiles(
  { dataDir, configFile }: SourceLocations,
  keys: readonly KeyFile[],
  folder: string,
): readonly SourceFile[] {
  for (const { path, content } of keys) writeFileSync(join(folder, path), content, { mode: 0o600 });
  const certificates = listCertificateNames(join(dataDir, 'tls')).map(
    (name) => [`tls/${name}`, join(dataDir, 'tls', name)] as const,
  );
  const sources = [...certificates, ...(configFile === undefined ? [] : [['plantroom.yaml', configFile] as const])];
  const copied = sources.flatMap(([path, from]) => {
    if (!isMemberPath(path) || !existsSync(from) || !statSync(from).isFile()) return [];
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    copyFileSync(from, file);
    return [describeSourceFile(path, file)];
  });
  return [...copied, ...keys.map(({ path }) => describeSourceFile(path, join(folder, path)))];
}

/** Separates the paths (relative to the data folder) of existing files from those of missing ones. */
export function splitByExistence(
  paths: readonly string[],
  dataDir: string,
): { readonly files: readonly SourceFile[]; readonly missing: readonly string[] } {
  const files: SourceFile[] = [];
  const missing: string[] = [];
  for (const path of paths) {
    const file = join(dataDir, path);
    const stats = statSync(file, { throwIfNoEntry: false });
    if (stats?.isFile() === true) files.push({ path, file, bytes: stats.size });
    else missing.push(path);
  }
  return { files, missing };
}

/** Describes an existing file. */
export function describeSourceFile(path: string, file: string): SourceFile {
  return { path, file, bytes: statSync(file).size };
}

/** Lists the names of the certificate files without incomplete ones (`.new`); empty if there is no such folder. */
function listCertificateNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
      .filter((name) => !name.endsWith('.new'))
      .toSorted();
  } catch (error) {
    if (getCode(error) === 'ENOENT') return [];
    throw error;
  }
}
