// Proves what is shipped, the single binary, on a bare Debian: no Node, no network but loopback. Prints a table: step, what was seen, seconds.
//   npm run ship        as root, on Linux, with mmdebstrap or debootstrap
// What cannot be proven on this machine it names, and ends with 0; what is proven wrong ends it with 1.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { layBareRoot, whyNoBareRoot } from './bareRoot.mjs';
import { hasOld, OLD } from './oldRelease.mjs';
import { freshBinary } from './program.mjs';
import { install } from './proofInstall.mjs';
import { restore } from './proofRestore.mjs';
import { tour } from './proofTour.mjs';
import { keepOldSite, upgrade } from './proofUpgrade.mjs';

const CACHE = 'node_modules/.cache/ship';
const table = [];

async function step(name, work) {
  const began = performance.now();
  const seen = await work();
  table.push(`${name.padEnd(10)} ${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${seen}`);
  console.log(`ship: ${table.at(-1)}`);
}

async function prove() {
  const why = whyNoBareRoot(CACHE);
  if (why !== undefined) return console.log(`NOT HERE: ${why}; the binary was not started on a bare Debian: neither the README's tour, nor an upgrade, a restore and an installation there are proven`);
  const binary = freshBinary();
  const began = performance.now();
  const work = mkdtempSync('/var/tmp/plantroom-ship-');
  const root = join(work, 'root');
  const folder = join(work, 'old');
  try {
    await step('bare root', () => {
      layBareRoot(root, CACHE);
      return 'Debian with curl';
    });
    await step('tour', async () => await tour({ root, binary }));
    if (hasOld()) {
      let answers;
      await step('old site', async () => {
        answers = await keepOldSite(folder, CACHE);
        return `kept by the program of ${OLD.commit.slice(0, 8)} (${OLD.schema}), killed`;
      });
      await step('upgrade', async () => await upgrade({ root, folder, answers }));
    } else console.log(`NOT HERE: the commit ${OLD.commit.slice(0, 8)} (a shallow clone?); no program of ${OLD.schema} was made, and no upgrade from it is proven here. test/database/releasedSchemas.test.ts has databases of each release`);
    await step('restore', async () => await restore({ root }));
    await step('install', async () => await install({ root, binary }));
    console.log(`ship: all of it in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

await prove();
