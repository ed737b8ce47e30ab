// The binary that is proven: the one that these sources make.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

// What goes into it.
const SOURCES = ['src', 'proto', 'scripts/build.mjs', 'scripts/openapi.mjs', 'scripts/binary', 'package-lock.json'];
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

/** The path of the binary for this machine. Throws when it is not there, or when sources have changed since it was made: what was proven would not be what is here. */
export function freshBinary() {
  const file = resolve(`dist/binary/plantroom-${version}-${process.platform}-${process.arch}`);
  const again = 'make it with npm run build:binary';
  if (!existsSync(file)) throw new Error(`there is no ${file}; ${again}`);
  const { commit } = JSON.parse(execFileSync(file, ['version', '--json'], { encoding: 'utf8', env: {} }));
  const newer = changedSince(commit).filter((path) => !existsSync(path) || statSync(path).mtimeMs > statSync(file).mtimeMs);
  if (newer.length > 0) throw new Error(`${file} was made at ${commit}, and since then ${newer[0]} and ${newer.length - 1} more files have changed; ${again}`);
  return file;
}

/** Sources that are not as they were at a commit; none where there is no git, as in an archive of the sources. */
function changedSince(commit) {
  if (commit === 'unknown') return [];
  return execFileSync('git', ['diff', '--name-only', '--relative', commit, '--', ...SOURCES], { encoding: 'utf8' }).split('\n').filter(Boolean);
}
