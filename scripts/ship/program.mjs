// Finds the single binary that was built from the current sources.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

// The sources of the binary.
const SOURCES = [
  'src',
  'proto',
  'scripts/build.mjs',
  'scripts/openapi',
  'scripts/notices',
  'scripts/binary',
  'package-lock.json',
];
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

/**
 * Returns the path of the binary for this machine. Throws if it does not exist, or if sources have changed since it was
 * built.
 */
export function findCurrentBinary() {
  const file = resolve(`dist/binary/plantroom-${version}-${process.platform}-${process.arch}`);
  const advice = 'build it with npm run build:binary';
  if (!existsSync(file)) throw new Error(`${file} does not exist; ${advice}`);
  const { commit } = JSON.parse(execFileSync(file, ['version', '--json'], { encoding: 'utf8', env: {} }));
  const newer = listChangesSince(commit).filter(
    (path) => !existsSync(path) || statSync(path).mtimeMs > statSync(file).mtimeMs,
  );
  if (newer.length > 0)
    throw new Error(
      `${file} is outdated: since its commit ${commit}, ${newer[0]} and ${newer.length - 1} more files have changed; ${advice}`,
    );
  return file;
}

/** Lists the sources that have changed since a commit; none without git, for example in a source archive. */
function listChangesSince(commit) {
  if (commit === 'unknown') return [];
  return execFileSync('git', ['diff', '--name-only', '--relative', commit, '--', ...SOURCES], { encoding: 'utf8' })
    .split('\n')
    .filter(Boolean);
}
