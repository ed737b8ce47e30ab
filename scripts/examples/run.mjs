// Tests the examples in Python and Go: runs the blocks of docs/clients.md in a shell against a real server with TLS.
// Skips a language whose tools or packages are not available.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { startServer } from '../client/server.mjs';
import { buildProtos } from '../protos/build.mjs';
import { listBlocks } from '../tours/script.mjs';
import { proveClient, proveError, proveRules } from './clientProof.mjs';
import { proveGateway } from './gatewayProof.mjs';
import { proveQuietLink } from './quietLink.mjs';
import { stopAll, assertThat, PLANTROOM, runShell, startShell } from './programs.mjs';
import { createSite } from './site.mjs';

const BLOCKS = listBlocks('docs/clients.md');
const INSTALL_SECONDS = 240;
const log = (text) => console.log(`examples: ${text}`);

/** Returns the block of docs/clients.md with this mark. */
function findBlock(kind) {
  const found = BLOCKS.filter((one) => one.kind === kind);
  assertThat(
    found.length === 1,
    `docs/clients.md must contain exactly one block tour:${kind}, but has ${found.length}`,
  );
  return found[0].text;
}

/** Returns obstacle the examples in a language cannot run here; undefined if they can. */
async function findObstacle(language, check, environment) {
  const toolCheck = startShell(check, { cwd: environment.folder, env: environment.env });
  if ((await toolCheck.code) !== 0)
    return `${check.split(' ')[0]} is not installed or too old: ${toolCheck.lines.at(-1) ?? 'not found'}`;
  const install = startShell(findBlock(`${language} install`), {
    cwd: environment.folder,
    env: environment.env,
    seconds: INSTALL_SECONDS,
  });
  return (await install.code) === 0
    ? undefined
    : `its packages cannot be installed: ${install.lines.at(-1) ?? `no result within ${INSTALL_SECONDS} s`}`;
}

async function testPython(baseEnvironment) {
  const obstacle = await findObstacle(
    'python',
    `python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer")'`,
    baseEnvironment,
  );
  if (obstacle) return `SKIPPED: ${obstacle}: the Python examples did not run`;
  // The environment after the `activate` and `export` commands of the blocks.
  const env = {
    ...baseEnvironment.env,
    PATH: [join(baseEnvironment.folder, 'docs/examples/python/.venv/bin'), baseEnvironment.env.PATH].join(delimiter),
    PYTHONPATH: 'docs/examples/python/stubs',
  };
  const environment = { ...baseEnvironment, env };
  await runShell(`${findBlock('python stubs')}python -m py_compile docs/examples/python/*.py`, {
    cwd: environment.folder,
    env,
  });
  const client = findBlock('python client');
  await proveClient(client, environment);
  await Promise.all([proveError(client, environment), proveRules(client, environment), proveQuietLink(environment)]);
  log(
    'Python: client.py reports converged despite a cut link and a rejected read, prints the reason of an error, and detects a silently broken connection',
  );
  const tls = ['server', 'server-key', 'ca'].map((file) => `data/tls/${file}.pem`).join(' ');
  await runShell(
    `python ${JSON.stringify(resolve('scripts/examples/gateway_rules.py'))} docs/examples/python/small_gateway.py ${tls} .`,
    { cwd: environment.folder, env },
  );
  log('Python: small_gateway.py follows the rules for repeated, expired and cancelled commands, a cut, and a kill');
  return `Python: small_gateway.py: ${await proveGateway({ gateway: findBlock('python gateway'), client }, { ...environment, site: environment.other })}`;
}

async function testGo(environment) {
  const obstacle = await findObstacle('go', 'go version', environment);
  if (obstacle) return `SKIPPED: ${obstacle}: the Go example did not run`;
  await runShell(
    `${findBlock('go stubs')}test -z "$(gofmt -l docs/examples/go/*.go)" || { echo 'these files are not formatted: run gofmt'; exit 1; }\ngo vet -C docs/examples/go .`,
    { cwd: environment.folder, env: environment.env, seconds: 240 },
  );
  await proveClient(findBlock('go client'), environment);
  await Promise.all([proveError(findBlock('go client'), environment), proveRules(findBlock('go client'), environment)]);
  return 'Go: the client reports converged despite a cut link and a rejected read, and prints the reason of an error';
}

/**
 * Creates a folder with the examples, a server, and two sites: one for the simulated gateway, one for the small
 * gateway.
 */
async function createEnvironment(folder) {
  const examples = join(folder, 'docs/examples');
  for (const language of ['python', 'go'])
    cpSync(join('docs/examples', language), join(examples, language), {
      recursive: true,
      filter: (file) => !/[/\\](stubs|\.venv|__pycache__)$/.test(file),
    });
  const { folder: bundle } = await buildProtos(join(folder, 'dist/protos'));
  const server = await startServer(folder);
  const env = {
    ...server.env,
    PLANTROOM_DATA_DIR: join(folder, 'data'),
    PATH: [resolve('node_modules/.bin'), process.env.PATH].join(delimiter),
  };
  const [site, other] = await Promise.all([
    createSite('Boiler room', { folder, env }),
    createSite('Cellar', { folder, env, seconds: 5 }),
  ]);
  const simulator = startShell(`${PLANTROOM}plantroom simulate gateway --connection "$CONNECTION" --delay 100ms`, {
    cwd: folder,
    env: { ...env, ...site },
    seconds: 900,
  });
  await simulator.until('ttached');
  return { folder, bundle, env, address: server.options.address, site, other, server, simulator };
}

const folder = mkdtempSync(join(tmpdir(), 'plantroom-examples-'));
let server;
try {
  const environment = await createEnvironment(folder);
  ({ server } = environment);
  log(`server on ${environment.address}`);
  for (const language of [testPython, testGo]) log(await language(environment));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  stopAll();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}
