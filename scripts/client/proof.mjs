// Tests plantroom-client as users get it: packed, installed into empty projects, type-checked, and run against a real
// server.
//   node scripts/client/proof.mjs        after scripts/setup.mjs; requires npm and its registry or cache
import { build } from 'esbuild';
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildProtos } from '../protos/build.mjs';
import { buildClient } from './build.mjs';
import { compile, createProject, findOtherNode, run, start } from './project.mjs';
import { createSite, startServer } from './server.mjs';

const STRICT = {
  target: 'es2022',
  lib: ['es2022'],
  strict: true,
  skipLibCheck: false,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  verbatimModuleSyntax: false,
  types: ['node'],
};
const CONSUMER = readFileSync('scripts/client/consumer.txt', 'utf8');
// The supported ways to compile a program: compiler options and file name.
const CONSUMERS = {
  'CommonJS, nodenext': { file: 'use.cts', options: { module: 'nodenext' } },
  'ES module, nodenext': { file: 'use.mts', options: { module: 'nodenext' } },
  'CommonJS, node10': {
    file: 'use10.ts',
    options: { module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '6.0', noEmit: true },
  },
  'ES module, bundler': { file: 'use.ts', options: { module: 'esnext', moduleResolution: 'bundler', noEmit: true } },
};
// The oldest supported version, as in the README and the example.
const OLDEST_TYPESCRIPT = /"typescript": ">=([\d.]+)"/.exec(
  readFileSync('docs/examples/typescript/package.json', 'utf8'),
)[1];
const began = performance.now();
const log = (text) => console.log(`client: ${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${text}`);
const sqlite = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages['node_modules/better-sqlite3'].version;

const folder = mkdtempSync(join(tmpdir(), 'plantroom-client-'));
const server = await startServer(folder);
try {
  const { file, files } = buildClient();
  log(`packed: ${files.length} files, none of the server`);
  const old = await findOtherNode();
  const nodes = [{ node: process.execPath, version: process.version }, ...(old ? [old] : [])];
  log(
    old
      ? `runs on ${nodes.map(({ version }) => version).join(' and ')}`
      : `SKIPPED: only Node ${process.version} is installed, no older version was tested`,
  );
  const { project, site } = await compileConsumers(file);
  const siteFile = join(folder, 'site.json');
  writeFileSync(siteFile, JSON.stringify({ ...site, ...server.options, ca: undefined, caFile: server.flags[3] }));
  await runConsumers(project, nodes, siteFile);
  await runBundle(project, nodes, siteFile);
  await runExamples(file, nodes, site);
  await testProtoBundle();
  log('PASSED');
} finally {
  const ended = await server.stop();
  rmSync(folder, { recursive: true, force: true });
  if (ended !== 0) {
    console.error(`client: the server exited with ${ended}`);
    process.exitCode = 1;
  }
}

/** Installs the package into an empty project without better-sqlite3, and compiles all consumers there. */
async function compileConsumers(file) {
  const texts = Object.values(CONSUMERS).map(({ file: name }) => [name, CONSUMER]);
  const configs = Object.values(CONSUMERS).map(({ file: name, options }) => [
    `tsconfig.${name}.json`,
    JSON.stringify({ compilerOptions: { ...STRICT, ...options }, files: [name] }),
  ]);
  const project = await createProject(join(folder, 'consumer'), {
    files: Object.fromEntries([...texts, ...configs]),
    packages: [file],
  });
  assert.ok(!project.installed.includes('better-sqlite3'), 'better-sqlite3 must be optional');
  log(`installed into an empty project: ${project.installed.length} packages`);
  const [site] = await Promise.all([
    createSite(project.require, server.options),
    ...Object.values(CONSUMERS).map(({ file: name }) => compile(project.folder, `tsconfig.${name}.json`)),
  ]);
  log(
    `type-checks with strict, exactOptionalPropertyTypes, noUncheckedIndexedAccess and without skipLibCheck: ${Object.keys(CONSUMERS).join('; ')}`,
  );
  return { project, site };
}

/** Runs the CommonJS and the ES module consumer on each Node version. */
async function runConsumers({ folder: cwd }, nodes, siteFile) {
  let position = 0;
  for (const name of ['use.cjs', 'use.mjs'])
    for (const { node } of nodes)
      assert.match(await run(node, [name, siteFile, String((position += 5))], { cwd }), /CONSUMER DONE/);
  log(
    `CommonJS and ES module: lists, errors, a gateway in memory, a command until converged, on ${nodes.length} Node versions`,
  );
}

/**
 * Bundles the consumer as CommonJS and as ES module, with the banner of the README, and runs it without node_modules.
 */
async function runBundle({ folder: project }, nodes, siteFile) {
  const cwd = mkdtempSync(join(folder, 'bundle-'));
  const [, banner] = /--banner:js='([^']+)'/.exec(readFileSync('src/client/README.md', 'utf8')) ?? [];
  assert.ok(banner, 'the README must contain the esbuild banner for ES module bundles');
  const commonOptions = {
    bundle: true,
    platform: 'node',
    target: 'node20',
    minify: true,
    metafile: true,
    external: ['better-sqlite3'],
    absWorkingDir: project,
    entryPoints: ['use.mts'],
    logLevel: 'warning',
  };
  const kinds = [
    { format: 'cjs', outfile: join(cwd, 'use.cjs') },
    { format: 'esm', outfile: join(cwd, 'use.mjs'), banner: { js: banner } },
  ];
  let position = 50;
  for (const { outfile, ...kind } of kinds) {
    const { metafile } = await build({ ...commonOptions, ...kind, outfile });
    const [{ bytes }] = Object.values(metafile.outputs);
    for (const { node } of nodes)
      assert.match(await run(node, [outfile, siteFile, String((position += 1))], { cwd }), /CONSUMER DONE/);
    log(`bundled to one file of ${Math.round(bytes / 1024)} KiB, ${kind.format}, runs without node_modules`);
  }
}

/** Compiles the examples of docs/examples/typescript and of the README, and runs the gateway and client examples. */
async function runExamples(file, nodes, { connectionId, deviceId, commandId }) {
  const blocks = [...readFileSync('src/client/README.md', 'utf8').matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(
    ([, text], at) => [`readme${at}.ts`, text],
  );
  assert.ok(blocks.length >= 4, 'the README of the package must contain at least 4 examples');
  const examples = resolve('docs/examples/typescript');
  const { folder: cwd } = await createProject(join(folder, 'examples'), {
    from: examples,
    files: Object.fromEntries(blocks),
    packages: [file, `better-sqlite3@${sqlite}`, `oldest-typescript@npm:typescript@${OLDEST_TYPESCRIPT}`],
  });
  writeFileSync(
    join(cwd, 'tsconfig.strict.json'),
    JSON.stringify({ extends: './tsconfig.json', compilerOptions: { skipLibCheck: false } }),
  );
  await compile(cwd, 'tsconfig.strict.json');
  await run(process.execPath, ['node_modules/oldest-typescript/bin/tsc', '-p', 'tsconfig.strict.json', '--noEmit'], {
    cwd,
  });
  log(`the examples and ${blocks.length} blocks of the README type-check, also with TypeScript ${OLDEST_TYPESCRIPT}`);
  const gateway = [
    'dist/gateway.js',
    ...server.flags,
    '--connection',
    connectionId,
    '--store',
    'gateway.db',
    '--every',
    '0.5',
  ];
  const { env } = server;
  await assert.rejects(
    run(process.execPath, ['dist/client.js', ...server.flags, '--device', deviceId], { cwd, env }),
    /give both --device and --command/,
  );
  const running = start(process.execPath, gateway, { cwd, env });
  await running.until('attached');
  for (const [at, { node, version }] of nodes.entries()) {
    const output = await run(
      node,
      [
        'dist/client.js',
        ...server.flags,
        '--device',
        deviceId,
        '--command',
        commandId,
        '--params',
        `{"position": ${60 + at}}`,
      ],
      { cwd, env },
    );
    assert.match(output, /^device \S+ Heating valve$[\s\S]*^execution \S+$[\s\S]*^state converged$/m);
    log(`examples: client on ${version}, gateway with a store on disk: ${output.match(/^state \w+/gm).join(', ')}`);
  }
  assert.equal(await running.stop(), 0, 'a gateway must stop cleanly');
  for (const { node } of nodes.filter(({ version }) => version.startsWith('v20.'))) {
    await assert.rejects(
      run(node, gateway, { cwd, env }),
      /store_unusable[\s\S]*requires Node 22|requires Node 22[\s\S]*store_unusable/,
    );
    log(`better-sqlite3 ${sqlite} does not support Node 20: the error is reported and the process continues`);
  }
}

/** Checks that the unpacked proto bundle passes buf, and that the bundle is reproducible. */
async function testProtoBundle() {
  const first = await buildProtos(join(folder, 'protos1'));
  mkdirSync(join(folder, 'unpacked'));
  await run('tar', ['xzf', first.archive, '-C', join(folder, 'unpacked')], {});
  const cwd = join(folder, 'unpacked', first.folder.split(/[\\/]/).at(-1));
  const buf = resolve('node_modules/.bin/buf');
  await run(buf, ['lint'], { cwd });
  await run(buf, ['build', '-o', 'again.binpb', '--as-file-descriptor-set'], { cwd });
  assert.ok(
    readFileSync(join(cwd, 'again.binpb')).equals(readFileSync(join(cwd, 'plantroom.binpb'))),
    'plantroom.binpb must be the compiled protos of the bundle',
  );
  const second = await buildProtos(join(folder, 'protos2'));
  assert.equal(first.sha256, second.sha256, 'the proto bundle must be reproducible');
  log(`proto bundle: ${first.files.length} files, reproducible, passes buf lint and build`);
}
