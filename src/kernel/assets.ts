import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getRawAsset } from 'node:sea';
import { isBinary } from './thisProgram';

// Beside the bundle in dist/; tests run from src/ and find what the build laid there.
const FOLDERS = [join(__dirname, 'assets'), join(__dirname, '..', '..', 'dist', 'assets')];

/**
 * A file that the build laid beside the program, or into the single binary: for example `image.binpb`. Only to be read: that of a binary is
 * the binary itself, mapped, and writing to it ends the process.
 */
export function asset(name: string): Buffer {
  return isBinary ? Buffer.from(getRawAsset(name)) : readFileSync(assetPath(name));
}

/** Where that file is; not in the single binary, where it has no place of its own. */
export function assetPath(name: string): string {
  const folder = FOLDERS.find((candidate) => existsSync(join(candidate, name)));
  if (folder === undefined) throw new Error(`the program's file ${name} is missing; build it again (npm run build)`);
  return join(folder, name);
}
