// For which machines the single binary is made, and where their Node comes from.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** `emulator`: what starts it on a machine of another kind, and where that finds the C library of the target. */
export const TARGETS = {
  'linux-x64': { strip: ['strip', 'x86_64-linux-gnu-strip', 'llvm-strip'], emulator: ['qemu-x86_64-static', '/usr/x86_64-linux-gnu'] },
  'linux-arm64': { strip: ['llvm-strip', 'aarch64-linux-gnu-strip'], emulator: ['qemu-aarch64-static', '/usr/aarch64-linux-gnu'] },
};

export const host = `${process.platform}-${process.arch}`;

const CACHE = 'node_modules/.cache/plantroom-binary';

/** The Node of the lock file for a target; the package of another machine is fetched by npm and must be the one that the lock file names. */
export function runtimeOf(target) {
  const name = `node-${target}`;
  const installed = join('node_modules', name, 'bin', 'node');
  if (existsSync(installed)) return installed;
  const { version, integrity } = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages[`node_modules/${name}`];
  const folder = join(CACHE, `${name}-${version}`);
  const archive = join(folder, `${name}-${version}.tgz`);
  const runtime = join(folder, 'package', 'bin', 'node');
  if (existsSync(archive) && existsSync(runtime) && isThat(archive, integrity)) return runtime;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  execFileSync(npm[0], [...npm.slice(1), 'pack', `${name}@${version}`, '--pack-destination', folder, '--loglevel=error'], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (!isThat(archive, integrity)) throw new Error(`${archive} is not what package-lock.json names (${integrity})`);
  execFileSync('tar', ['-xzf', archive, '-C', folder, 'package/bin/node']);
  return runtime;
}

function isThat(archive, integrity) {
  const [algorithm] = integrity.split('-');
  return `${algorithm}-${createHash(algorithm).update(readFileSync(archive)).digest('base64')}` === integrity;
}

/** The first of these programs that is on this machine. */
export function findProgram(names) {
  const folders = (process.env.PATH ?? '').split(':');
  return names.find((name) => folders.some((folder) => existsSync(join(folder, name))));
}
