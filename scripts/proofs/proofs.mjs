// Runs the proofs: checks that take longer than the gate (.ci/run) and prove more.
//   npm run proofs                          all of them, two at a time
//   npm run proofs -- crash gateway         some of them; one that is skipped is a failure then
//   npm run proofs -- --list                what there is
//   npm run proofs -- --json results.json   also writes the results to a file
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { PROOFS } from './proofTable.mjs';
import { formatList, formatOutput, formatResult, formatSummary } from './report.mjs';
import { provideRequirements } from './requirements.mjs';
import { killRunningProofs, runProof } from './runProof.mjs';

const OUTPUT_FOLDER = 'dist/proofs';
const MAX_CONCURRENT = 2;

const { values, positionals } = parseArgs({
  options: { list: { type: 'boolean' }, json: { type: 'string' } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !PROOFS.some((proof) => proof.name === name));
if (unknown.length > 0) {
  console.error(`Unknown proof ${unknown.join(', ')}: use ${PROOFS.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}
if (values.list) {
  console.log(formatList(PROOFS));
  process.exit(0);
}
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => {
    killRunningProofs();
    process.exit(1);
  });
mkdirSync(OUTPUT_FOLDER, { recursive: true });

const isNamed = positionals.length > 0;
const selected = isNamed ? PROOFS.filter(({ name }) => positionals.includes(name)) : PROOFS;
const results = [];

/** Installs what a proof needs, runs it, and prints its result. */
async function prove(proof, missing) {
  const outputFile = join(OUTPUT_FOLDER, `${proof.name}.log`);
  const started = performance.now();
  if (missing.length === 0) console.log(`running    ${proof.name}`);
  const result =
    missing.length > 0
      ? { verdict: 'skipped', reason: `${missing.join(' and ')} missing, and not installable here` }
      : await runProof(proof, outputFile);
  const seconds = missing.length > 0 ? undefined : Math.round((performance.now() - started) / 1000);
  results.push({ name: proof.name, ...result, seconds });
  console.log(formatResult(results.at(-1)));
  if (result.verdict === 'failed') console.log(formatOutput({ name: proof.name, outputFile }));
}

/** Runs proofs, at most `maxConcurrent` at a time. */
async function proveAll(proofs, maxConcurrent) {
  const waiting = proofs.map((proof) => ({ proof, missing: provideRequirements(proof.needs) }));
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await prove(next.proof, next.missing);
  };
  await Promise.all(Array.from({ length: maxConcurrent }, work));
}

await proveAll(
  selected.filter(({ isAlone }) => isAlone),
  1,
);
await proveAll(
  selected.filter(({ isAlone }) => !isAlone),
  MAX_CONCURRENT,
);
console.log(`\n${formatSummary(results)}`);
if (values.json) writeFileSync(values.json, `${JSON.stringify(results, undefined, 2)}\n`);
const failures = isNamed ? ['failed', 'incomplete', 'skipped'] : ['failed'];
process.exitCode = results.some(({ verdict }) => failures.includes(verdict)) ? 1 : 0;
