// Stores the current protos as those of a release: `node scripts/protos/release.mjs VERSION [--breaking]`. VERSION must
// be that of package.json. Rejects incompatible changes unless --breaking is set, and never overwrites a release.
import { execFileSync } from 'node:child_process';
import { copyFileSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { compareVersions, FOLDER, getImageFile, isVersion, listReleases } from './releases.mjs';

const [version = '', breaking] = process.argv.slice(2);
const isBreakingAllowed = breaking === '--breaking'; // CHANGELOG.md lists the incompatible changes
const env = { ...process.env, PATH: join(process.cwd(), 'node_modules', '.bin') + delimiter + process.env.PATH };

mkdirSync(FOLDER, { recursive: true });
const problem = findProblem();
if (problem) {
  console.error(problem);
  process.exitCode = 1;
} else storeRelease();

function findProblem() {
  if (!isVersion(version))
    return `invalid version ${JSON.stringify(version)}: use MAJOR.MINOR.PATCH, for example 0.2.0`;
  const newest = listReleases().at(-1);
  if (listReleases().includes(version))
    return `${version} was released already, and its protos in ${getImageFile(version)} must not change: use the next version`;
  if (newest && compareVersions(version, newest) < 0)
    return `${version} is older than ${newest}, the newest release: use a later version`;
  const { version: own } = JSON.parse(readFileSync('package.json', 'utf8'));
  if (version !== own) return `package.json says ${own}, not ${version}: use ${own}, or change package.json first`;
  return undefined;
}

function storeRelease() {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-release-'));
  try {
    if (listReleases().length > 0 && !isBreakingAllowed)
      execFileSync('sh', ['scripts/breaking.sh'], { env, stdio: 'inherit' });
    const image = join(folder, 'image.binpb');
    execFileSync('buf', ['build', 'proto', '--exclude-source-info', '-o', image], { env, stdio: 'inherit' });
    copyFileSync(image, getImageFile(version), constants.COPYFILE_EXCL);
    console.log(`${getImageFile(version)}: commit it with the release`);
  } catch (error) {
    if (!('status' in error)) throw error;
    process.exitCode = 1; // buf has printed the reason
  } finally {
    rmSync(folder, { recursive: true });
  }
}
