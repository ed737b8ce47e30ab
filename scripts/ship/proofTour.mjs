// Part 1: the README, word by word, on a machine with the binary and nothing else.
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { blocksOf, scriptOf } from '../tours/script.mjs';
import { inside } from './bareRoot.mjs';
import { must, serving, STOPPED } from './proofParts.mjs';

const LEFT_OUT = ['serve', 'checkout', 'grpcurl'];

export async function tour({ root, binary }) {
  const site = join(root, 'srv/site');
  mkdirSync(site, { recursive: true });
  copyFileSync(binary, join(site, 'plantroom'));
  const blocks = blocksOf('README.md');
  const first = blocks.find(({ kind }) => kind === 'serve');
  must(first !== undefined, 'the README must mark its first command as tour:serve');
  const pasted = blocks.filter(({ kind }) => !LEFT_OUT.includes(kind));
  const script = scriptOf(pasted, { key: '$KEY', organization: '$ORGANIZATION', grpc: 'localhost:50051', http: 'localhost:8443', folder: '.' });
  const said = await inside(root, `
for program in node npm; do if command -v $program; then echo "there is a $program here"; exit 1; fi; done
cd /srv/site
${serving(first.text.trim(), 'serve.log')}
KEY=$(sed -n 's/.*PLANTROOM_API_KEY=\\([^ ]*\\).*/\\1/p' serve.log | head -n 1)
ORGANIZATION=$(sed -n 's/.*PLANTROOM_ORGANIZATION_ID=\\([^ ]*\\).*/\\1/p' serve.log | head -n 1)
${script}
declare -p PLANTROOM_API_KEY PLANTROOM_ORGANIZATION_ID CONNECTION DEVICE COMMAND > tour.vars
${STOPPED}
`, 90);
  must(said.includes('TOUR COMPLETE') && said.includes('converged'), 'the tour must come to its end, and its execution to converged', said.slice(-2000));
  return `no node, no npm; ${first.text.trim()}; ${pasted.length} blocks of the README did what it says, up to converged; SIGTERM ends it with 0`;
}
