// Everything that reads the tree without running it: protos, types, lint rules, the import law. Runs all, fails if one failed.
import { spawnSync } from 'node:child_process';

const steps = [
  ['protos', 'buf', ['lint', 'proto']],
  ['proto format', 'buf', ['format', 'proto', '--diff', '--exit-code']],
  ['types', 'tsc', ['--noEmit']],
  ['rules', 'oxlint', ['--type-aware', '--deny-warnings', 'src', 'test', 'scripts']],
  ['import law', 'depcruise', ['--config', '.dependency-cruiser.cjs', 'src']],
];
let failed = 0;
for (const [name, command, args] of steps) {
  const started = Date.now();
  const result = spawnSync(`node_modules/.bin/${command}`, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  const ok = result.status === 0;
  console.error(`lint: ${name.padEnd(13)} ${ok ? 'ok' : 'FAILED'}  ${((Date.now() - started) / 1000).toFixed(1)} s`);
  failed += ok ? 0 : 1;
}
process.exit(failed ? 1 : 0);
