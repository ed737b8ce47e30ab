// Part 1: the commands of the README on a machine that has only the binary.
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { listBlocks, buildScript } from '../tours/script.mjs';
import { runInRoot } from './bareRoot.mjs';
import { assertThat, startServer, STOP_SERVER } from './proofParts.mjs';

const SKIPPED_KINDS = ['serve', 'checkout', 'grpcurl'];

export async function testReadme({ root, binary }) {
  const site = join(root, 'srv/site');
  mkdirSync(site, { recursive: true });
  copyFileSync(binary, join(site, 'plantroom'));
  const blocks = listBlocks('README.md');
  const first = blocks.find(({ kind }) => kind === 'serve');
  assertThat(first !== undefined, 'the README must mark its first command as tour:serve');
  const runnable = blocks.filter(({ kind }) => !SKIPPED_KINDS.includes(kind));
  const script = buildScript(runnable, {
    key: '$KEY',
    organization: '$ORGANIZATION',
    grpc: 'localhost:50051',
    http: 'localhost:8443',
    folder: '.',
  });
  const output = await runInRoot(
    root,
    `
for program in node npm; do if command -v $program; then echo "$program is installed, but must not be"; exit 1; fi; done
cd /srv/site
${startServer(first.text.trim(), 'serve.log')}
KEY=$(sed -n 's/.*PLANTROOM_API_KEY=\\([^ ]*\\).*/\\1/p' serve.log | head -n 1)
ORGANIZATION=$(sed -n 's/.*PLANTROOM_ORGANIZATION_ID=\\([^ ]*\\).*/\\1/p' serve.log | head -n 1)
${script}
declare -p PLANTROOM_API_KEY PLANTROOM_ORGANIZATION_ID CONNECTION DEVICE COMMAND > tour.vars
${STOP_SERVER}
`,
    90,
  );
  assertThat(
    output.includes('TOUR COMPLETE') && output.includes('converged'),
    'all commands must succeed, and the execution must converge',
    output.slice(-2000),
  );
  return `no node, no npm; ${first.text.trim()}; ${runnable.length} blocks of the README succeeded, up to converged; SIGTERM stops the server with exit code 0`;
}
