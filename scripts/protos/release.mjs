// Freezes the protos as they are as those of a release: `node scripts/protos/release.mjs VERSION`. VERSION is that of package.json. Refuses what breaks the release before, and never writes over one.
import { execFileSync } from 'node:child_process';
import { copyFileSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { compareVersions, FOLDER, imageOf, isVersion, releases } from './releases.mjs';

const [version = ''] = process.argv.slice(2);
const env = { ...process.env, PATH: join(process.cwd(), 'node_modules', '.bin') + delimiter + process.env.PATH };

mkdirSync(FOLDER, { recursive: true });
const refusal = refused();
if (refusal) {
  console.error(refusal);
  process.exitCode = 1;
} else freeze();

function refused() {
  if (!isVersion(version)) return `give the version of the release as MAJOR.MINOR.PATCH, for example 0.2.0: ${JSON.stringify(version)} is none`;
  const newest = releases().at(-1);
  if (releases().includes(version)) return `${version} was released: its protos stay as they are in ${imageOf(version)}; give the next version`;
  if (newest && compareVersions(version, newest) < 0) return `${version} is older than ${newest}, which was released; give a later version`;
  const { version: own } = JSON.parse(readFileSync('package.json', 'utf8'));
  if (version !== own) return `package.json says ${own}, so ${version} is not what is released; give ${own}, or change package.json first`;
  return undefined;
}

function freeze() {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-release-'));
  try {
    if (releases().length > 0) execFileSync('sh', ['scripts/breaking.sh'], { env, stdio: 'inherit' });
    const image = join(folder, 'image.binpb');
    execFileSync('buf', ['build', 'proto', '--exclude-source-info', '-o', image], { env, stdio: 'inherit' });
    copyFileSync(image, imageOf(version), constants.COPYFILE_EXCL);
    console.log(`${imageOf(version)}: commit it with the release`);
  } catch (error) {
    if (!('status' in error)) throw error;
    process.exitCode = 1; // buf said why
  } finally {
    rmSync(folder, { recursive: true });
  }
}
