// Tests the single binary on a minimal Debian without Node.js and with the loopback network only. Prints one line per
// step: name, seconds, result.
//   npm run ship        as root, on Linux, with mmdebstrap or debootstrap
// Prints SKIPPED for what this machine cannot run. Exits with 1 if a step fails.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { unpackBareRoot, whyNoBareRoot } from './bareRoot.mjs';
import { hasOldCommit, OLD } from './oldRelease.mjs';
import { findCurrentBinary } from './program.mjs';
import { testInstallation } from './proofInstall.mjs';
import { testRestore } from './proofRestore.mjs';
import { testReadme } from './proofTour.mjs';
import { createSiteData, testUpgrade } from './proofUpgrade.mjs';

const CACHE = 'node_modules/.cache/ship';
const table = [];

async function step(name, work) {
  const began = performance.now();
  const result = await work();
  table.push(`${name.padEnd(10)} ${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${result}`);
  console.log(`ship: ${table.at(-1)}`);
}

async function testBinary() {
  const reason = whyNoBareRoot(CACHE);
  if (reason !== undefined)
    return console.log(
      `SKIPPED: ${reason}; README commands, upgrade, restore and installation were not tested on a minimal Debian`,
    );
  const binary = findCurrentBinary();
  const began = performance.now();
  const work = mkdtempSync('/var/tmp/plantroom-ship-');
  const root = join(work, 'root');
  const folder = join(work, 'old');
  try {
    await step('root', () => {
      unpackBareRoot(root, CACHE);
      return 'Debian with curl';
    });
    await step('tour', async () => await testReadme({ root, binary }));
    if (hasOldCommit()) {
      let responses;
      await step('old site', async () => {
        responses = await createSiteData(folder, CACHE);
        return `created by the program of ${OLD.commit.slice(0, 8)} (${OLD.schema}), killed`;
      });
      await step('upgrade', async () => await testUpgrade({ root, folder, responses }));
    } else
      console.log(
        `SKIPPED: the commit ${OLD.commit.slice(0, 8)} is missing (shallow clone?): the upgrade from ${OLD.schema} was not tested. test/database/releasedSchemas.test.ts tests databases of each release`,
      );
    await step('restore', async () => await testRestore({ root }));
    await step('install', async () => await testInstallation({ root, binary }));
    console.log(`ship: finished in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

await testBinary();
