// Runs all static checks, as many at a time as there are cores, and exits with 1 if at least one failed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { text } from 'node:stream/consumers';

// The slowest ones first, so that none of them runs alone at the end.
const checks = [
  ['rules', 'oxlint', ['--type-aware', '--deny-warnings', 'src', 'test', 'scripts']],
  ['types', 'tsc', ['--noEmit']],
  ['format', 'prettier', ['--check', '--log-level', 'warn', '.']],
  ['import rules', 'depcruise', ['--config', '.dependency-cruiser.cjs', 'src']],
  ['protos', 'buf', ['lint', 'proto']],
  ['proto format', 'buf', ['format', 'proto', '--diff', '--exit-code']],
  ['words', 'node', ['scripts/lint/words.mjs']],
  ['commits', 'node', ['scripts/lint/commits.mjs']],
  ['licenses', 'node', ['scripts/notices/checkLicenses.mjs']],
];

/** Runs a check and prints its output when it has ended. Returns whether it passed. */
async function run([name, command, args]) {
  const started = Date.now();
  const program = command === 'node' ? process.execPath : `node_modules/.bin/${command}`;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  process.stderr.write(`${stdout}${stderr}lint: ${name.padEnd(13)} ${code === 0 ? 'ok' : 'FAILED'}  ${seconds} s\n`);
  return code === 0;
}

const waiting = [...checks];
const results = [];
const work = async () => {
  for (let check = waiting.shift(); check; check = waiting.shift()) results.push(await run(check));
};
await Promise.all(Array.from({ length: availableParallelism() }, work));
process.exitCode = results.every(Boolean) ? 0 : 1;
