import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

// Beside the bundle in dist/; tests run from src/ and find what the build laid there.
const FOLDERS = [join(__dirname, 'assets'), join(__dirname, '..', '..', 'dist', 'assets')];

/** A file that the build laid beside the program, for example `image.binpb`. */
export function asset(name: string): Buffer {
  return readFileSync(assetPath(name));
}

/** Where that file is. */
export function assetPath(name: string): string {
  const folder = FOLDERS.find((candidate) => existsSync(join(candidate, name)));
  if (!folder) throw new Error(`the program's file ${name} is missing; build it again (npm run build)`);
  return join(folder, name);
}
