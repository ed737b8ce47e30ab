// Tests clients that public generators create from /openapi.json with their default settings: each is generated and
// compiled, and calls a real server over TLS: create, get, list, execute, an error, an upload and a download.
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { createSite } from './site.mjs';
import { withTemporaryServer } from './temporaryServer.mjs';

const TIMEOUT_MS = 300_000;
const DOCUMENT = resolve('dist/assets/openapi.json');
const PROGRAMS = resolve('scripts/rest/generators');
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const COMPILER = {
  target: 'es2023',
  lib: ['es2024', 'dom', 'dom.iterable'],
  module: 'nodenext',
  moduleResolution: 'nodenext',
  strict: true,
  noUncheckedIndexedAccess: true,
  noEmit: true,
  types: [],
};

const exec = promisify(execFile);
const run = async (command, args, options) =>
  await exec(command, args, { timeout: TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024, ...options });

/** Tests a Go client. `generate`: the arguments of `go run` that generate the package `client`. */
async function testGoClient(folder, env, program, generate) {
  mkdirSync(join(folder, 'client'));
  copyFileSync(join(PROGRAMS, program), join(folder, 'main.go'));
  const go = async (...args) => await run('go', args, { cwd: folder, env });
  await go('mod', 'init', 'example.org/use');
  await go('run', ...generate);
  await go('get', './...');
  await go('vet', '.');
  await go('run', '.');
}

const testOapiCodegen = async (folder, env) =>
  await testGoClient(folder, env, 'oapiCodegen.go.txt', [
    'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2',
    '-generate',
    'types,client',
    '-package',
    'client',
    '-o',
    'client/client.go',
    DOCUMENT,
  ]);

const testOgen = async (folder, env) =>
  await testGoClient(folder, env, 'ogen.go.txt', [
    'github.com/ogen-go/ogen/cmd/ogen@v1.24.0',
    '--target',
    'client',
    '--package',
    'client',
    '--clean',
    DOCUMENT,
  ]);

async function testPythonClient(folder, env) {
  const bin = join(folder, 'venv/bin');
  await run('python3', ['-m', 'venv', 'venv'], { cwd: folder });
  await run(join(bin, 'pip'), [
    'install',
    '-q',
    '--disable-pip-version-check',
    'openapi-python-client==0.29.1',
    'mypy==1.19.1',
  ]);
  // The generator finds its formatter in PATH. A warning means that an operation or a type was skipped.
  const options = { cwd: folder, env: { ...env, PATH: `${bin}:${env.PATH}` } };
  await run(
    join(bin, 'openapi-python-client'),
    ['generate', '--path', DOCUMENT, '--meta', 'none', '--output-path', 'plantroom_client', '--fail-on-warning'],
    options,
  );
  copyFileSync(join(PROGRAMS, 'use_python_client.py'), join(folder, 'use.py'));
  await run(join(bin, 'mypy'), ['--strict', '--follow-imports', 'silent', 'use.py'], options);
  await run(join(bin, 'python'), ['use.py'], options);
}

async function testTypescriptClient(folder, env) {
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  await run(
    'npm',
    [
      'install',
      '--silent',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      'openapi-typescript@7.13.0',
      'openapi-fetch@0.17.0',
    ],
    { cwd: folder },
  );
  await run(join(folder, 'node_modules/.bin/openapi-typescript'), [DOCUMENT, '-o', 'schema.ts'], { cwd: folder });
  copyFileSync(join(PROGRAMS, 'openapiTypescript.txt'), join(folder, 'use.ts'));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER, files: ['use.ts'] }));
  await run(resolve('node_modules/.bin/tsc'), ['-p', folder]);
  await build({
    bundle: true,
    platform: 'node',
    format: 'esm',
    entryPoints: [join(folder, 'use.ts')],
    outfile: join(folder, 'use.mjs'),
    logLevel: 'warning',
  });
  await run(process.execPath, ['use.mjs'], { cwd: folder, env });
}

/** Whether a program is installed. */
async function isInstalled(command, args) {
  return await run(command, args).then(
    () => true,
    () => false,
  );
}

async function testGenerator([name, { tool, test }], folder, env) {
  if (tool && !(await isInstalled(...tool)))
    return console.log(`SKIPPED: ${tool[0]} is not installed: ${name} was not tested`);
  const clientFolder = join(folder, name);
  mkdirSync(clientFolder);
  const startedAt = performance.now();
  await test(clientFolder, { ...env, COMMAND_ID: await createCommand(name, env) });
  return console.log(
    `generators: ${name}: the client compiles and works over TLS (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`,
  );
}

const GENERATORS = {
  'oapi-codegen': { tool: ['go', ['version']], test: testOapiCodegen },
  ogen: { tool: ['go', ['version']], test: testOgen },
  'openapi-python-client': { tool: ['python3', ['-c', 'import venv, ensurepip']], test: testPythonClient },
  'openapi-typescript': { test: testTypescriptClient },
};

/** Creates a command for one program: the same command twice in flight would be a duplicate. */
async function createCommand(name, { BASE, API_KEY, ORGANIZATION_ID, DEVICE_ID }) {
  const command = {
    name,
    mode: 'direct',
    verificationStrategy: 'no_verification',
    directPayload: JSON.stringify({ from: name }),
  };
  const headers = { 'X-API-Key': API_KEY, 'X-Organization-Id': ORGANIZATION_ID, 'content-type': 'application/json' };
  const response = await fetch(`${BASE}/api/v2/devices/${DEVICE_ID}/commands`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ command }),
  });
  if (!response.ok) throw new Error(`cannot create a command: ${await response.text()}`);
  return (await response.json()).id;
}

/** Creates the environment of the programs: address, API key, CA certificate, device, image. */
async function createEnvironment(folder, { base, headers, caFile }) {
  setDefaultCACertificates([...getCACertificates(), readFileSync(caFile, 'utf8')]);
  const site = await createSite(base, headers);
  const imageFile = join(folder, 'valve.png');
  writeFileSync(imageFile, Buffer.from(PNG, 'base64'));
  const variables = {
    BASE: base,
    API_KEY: headers['X-API-Key'],
    ORGANIZATION_ID: headers['X-Organization-Id'],
    CA_FILE: caFile,
    NODE_EXTRA_CA_CERTS: caFile,
    DEVICE_ID: site['/api/v2/devices'],
    IMAGE_FILE: imageFile,
    IMAGE: PNG,
  };
  return { ...process.env, ...variables };
}

const folder = mkdtempSync(join(tmpdir(), 'plantroom-generators-'));
const requestedNames = process.argv.slice(2);
const selectedGenerators = Object.entries(GENERATORS).filter(
  ([name]) => requestedNames.length === 0 || requestedNames.includes(name),
);
try {
  await withTemporaryServer(
    async (server) => {
      const env = await createEnvironment(folder, server);
      const results = await Promise.allSettled(
        selectedGenerators.map(async (generator) => await testGenerator(generator, folder, env)),
      );
      const failures = results.flatMap(({ reason }, at) =>
        reason ? [`${selectedGenerators[at][0]}: ${reason.message}\n${reason.stdout ?? ''}${reason.stderr ?? ''}`] : [],
      );
      for (const failure of failures) console.error(failure.split('\n').slice(-40).join('\n'));
      process.exitCode = failures.length > 0 ? 1 : 0;
    },
    { tls: true },
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
