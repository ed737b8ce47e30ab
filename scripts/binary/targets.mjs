// The target platforms of the single binary, and their Node.js.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** `emulator`: the program that runs the binary on another architecture, and the folder of the target's C library. */
export const TARGETS = {
  'linux-x64': {
    strip: ['strip', 'x86_64-linux-gnu-strip', 'llvm-strip'],
    emulator: ['qemu-x86_64-static', '/usr/x86_64-linux-gnu'],
  },
  'linux-arm64': {
    strip: ['llvm-strip', 'aarch64-linux-gnu-strip'],
    emulator: ['qemu-aarch64-static', '/usr/aarch64-linux-gnu'],
  },
};

export const host = `${process.platform}-${process.arch}`;

const CACHE = 'node_modules/.cache/plantroom-binary';

/**
 * Returns the path of the Node.js of the lock file for a target. Packages for other platforms are downloaded by npm and must
 * match the integrity in the lock file.
 */
export function findRuntime(target) {
  const name = `node-${target}`;
  const installed = join('node_modules', name, 'bin', 'node');
  if (existsSync(installed)) return installed;
  const { version, integrity } = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages[`node_modules/${name}`];
  const folder = join(CACHE, `${name}-${version}`);
  const archive = join(folder, `${name}-${version}.tgz`);
  const runtime = join(folder, 'package', 'bin', 'node');
  const isExtracted = [archive, runtime, findLicenseFile(runtime)].every((file) => existsSync(file));
  if (isExtracted && hasIntegrity(archive, integrity)) return runtime;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  execFileSync(
    npm[0],
    [...npm.slice(1), 'pack', `${name}@${version}`, '--pack-destination', folder, '--loglevel=error'],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  if (!hasIntegrity(archive, integrity)) throw new Error(`${archive} does not match package-lock.json (${integrity})`);
  execFileSync('tar', ['-xzf', archive, '-C', folder, 'package/bin/node', 'package/LICENSE']);
  return runtime;
}

/** Returns the path of the Node.js license in its package. */
export const findLicenseFile = (runtime) => join(dirname(dirname(runtime)), 'LICENSE');

function hasIntegrity(archive, integrity) {
  const [algorithm] = integrity.split('-');
  return `${algorithm}-${createHash(algorithm).update(readFileSync(archive)).digest('base64')}` === integrity;
}

/** Returns the first of these programs that is in PATH. */
export function findProgram(names) {
  const folders = (process.env.PATH ?? '').split(':');
  return names.find((name) => folders.some((folder) => existsSync(join(folder, name))));
}
