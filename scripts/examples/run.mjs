// The examples in Python and Go, as docs/clients.md says: its blocks are pasted into a shell beside a real server with TLS. Where a toolchain or
// its packages are not to be had it says so, and goes on.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { startServer } from '../client/server.mjs';
import { buildProtos } from '../protos/build.mjs';
import { blocksOf } from '../tours/script.mjs';
import { proveClient, proveError, proveRules } from './clientProof.mjs';
import { proveGateway } from './gatewayProof.mjs';
import { proveQuietLink } from './quietLink.mjs';
import { endAll, must, PLANTROOM, shell, startShell } from './programs.mjs';
import { makeSite } from './site.mjs';

const BLOCKS = blocksOf('docs/clients.md');
const INSTALL_SECONDS = 240;
const say = (text) => console.log(`examples: ${text}`);

/** The block of docs/clients.md with this mark. */
function block(kind) {
  const found = BLOCKS.filter((one) => one.kind === kind);
  must(found.length === 1, `docs/clients.md must mark one block as tour:${kind}, and has ${found.length}`);
  return found[0].text;
}

/** Why the examples in a language cannot run here; undefined: they can. */
async function missing(language, check, world) {
  const there = startShell(check, { cwd: world.folder, env: world.env });
  if ((await there.code) !== 0) return `${check.split(' ')[0]} is not on this machine, or too old: ${there.lines.at(-1) ?? 'no such program'}`;
  const install = startShell(block(`${language} install`), { cwd: world.folder, env: world.env, seconds: INSTALL_SECONDS });
  return (await install.code) === 0 ? undefined : `its packages cannot be had: ${install.lines.at(-1) ?? `nothing for ${INSTALL_SECONDS} s`}`;
}

async function python(given) {
  const why = await missing('python', `python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer")'`, given);
  if (why) return `NOT HERE: ${why}: the Python examples did not run`;
  // What `activate` and `export` of the blocks leave in a newcomer's shell.
  const env = { ...given.env, PATH: [join(given.folder, 'docs/examples/python/.venv/bin'), given.env.PATH].join(delimiter), PYTHONPATH: 'docs/examples/python/stubs' };
  const world = { ...given, env };
  await shell(`${block('python stubs')}python -m py_compile docs/examples/python/*.py`, { cwd: world.folder, env });
  const client = block('python client');
  await proveClient(client, world);
  await Promise.all([proveError(client, world), proveRules(client, world), proveQuietLink(world)]);
  say('Python: client.py came to converged over a cut link and a refused read, told the reason of an error, and found a quiet link broken');
  const tls = ['server', 'server-key', 'ca'].map((file) => `data/tls/${file}.pem`).join(' ');
  await shell(`python ${JSON.stringify(resolve('scripts/examples/gateway_rules.py'))} docs/examples/python/small_gateway.py ${tls} .`, { cwd: world.folder, env });
  say('Python: small_gateway.py keeps the rules: repeated, late and withdrawn commands, a cut, a kill');
  return `Python: small_gateway.py: ${await proveGateway({ gateway: block('python gateway'), client }, { ...world, site: world.other })}`;
}

async function go(world) {
  const why = await missing('go', 'go version', world);
  if (why) return `NOT HERE: ${why}: the Go example did not run`;
  await shell(`${block('go stubs')}test -z "$(gofmt -l docs/examples/go/*.go)" || { echo 'gofmt would change these files'; exit 1; }\ngo vet -C docs/examples/go .`, { cwd: world.folder, env: world.env, seconds: 240 });
  await proveClient(block('go client'), world);
  await Promise.all([proveError(block('go client'), world), proveRules(block('go client'), world)]);
  return 'Go: the client came to converged over a cut link and a refused read, and told the reason of an error';
}

/** A folder that holds what a checkout has for the examples, a server beside it, and two sites: one for the simulated gateway, one for ours. */
async function makeWorld(folder) {
  const examples = join(folder, 'docs/examples');
  for (const language of ['python', 'go']) cpSync(join('docs/examples', language), join(examples, language), { recursive: true, filter: (file) => !/[/\\](stubs|\.venv|__pycache__)$/.test(file) });
  const { folder: bundle } = await buildProtos(join(folder, 'dist/protos'));
  const server = await startServer(folder);
  const env = { ...server.env, PLANTROOM_DATA_DIR: join(folder, 'data'), PATH: [resolve('node_modules/.bin'), process.env.PATH].join(delimiter) };
  const [site, other] = await Promise.all([makeSite('Boiler room', { folder, env }), makeSite('Cellar', { folder, env, seconds: 5 })]);
  // It answers after a second: time enough to cut a link.
  const simulator = startShell(`${PLANTROOM}plantroom simulate gateway --connection "$CONNECTION" --delay 1s`, { cwd: folder, env: { ...env, ...site }, seconds: 900 });
  await simulator.until('ttached');
  return { folder, bundle, env, address: server.options.address, site, other, server };
}

const folder = mkdtempSync(join(tmpdir(), 'plantroom-examples-'));
let server;
try {
  const world = await makeWorld(folder);
  ({ server } = world);
  say(`a server on ${world.address}`);
  for (const language of [python, go]) say(await language(world));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  endAll();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}
