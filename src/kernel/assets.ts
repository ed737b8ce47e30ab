import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getRawAsset } from 'node:sea';
import { isBinary } from './executable';

// In dist/ the assets are next to the bundle. Tests run from src/ and use the build output.
const FOLDERS = [join(__dirname, 'assets'), join(__dirname, '..', '..', 'dist', 'assets')];

/**
 * Reads a file that the build placed next to the program or in the single binary, for example `image.binpb`. The buffer
 * is read-only: in the single binary it maps the executable, and a write to it crashes the process.
 */
export function readAsset(name: string): Buffer {
  return isBinary ? Buffer.from(getRawAsset(name)) : readFileSync(assetPath(name));
}

/** Returns the path of an asset. The single binary has no such path. */
export function assetPath(name: string): string {
  const folder = FOLDERS.find((candidate) => existsSync(join(candidate, name)));
  if (folder === undefined) throw new Error(`cannot find the program file ${name}: run npm run build`);
  return join(folder, name);
}
