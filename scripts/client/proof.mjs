// Proves plantroom-client as its users have it: packed, installed into empty projects, type-checked there, and run against a real server.
//   node scripts/client/proof.mjs        after scripts/setup.mjs; it needs npm and its registry, or npm's cache
import { build } from 'esbuild';
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildProtos } from '../protos/build.mjs';
import { buildClient } from './build.mjs';
import { compile, makeProject, otherNode, run, start } from './project.mjs';
import { makeSite, startServer } from './server.mjs';

const STRICT = { target: 'es2022', lib: ['es2022'], strict: true, skipLibCheck: false, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noPropertyAccessFromIndexSignature: true, verbatimModuleSyntax: false, types: ['node'] };
const CONSUMER = readFileSync('scripts/client/consumer.txt', 'utf8');
// How a consumer may be compiled: module and resolution, the name of its file, and what becomes of it.
const CONSUMERS = {
  'CommonJS, nodenext': { file: 'use.cts', options: { module: 'nodenext' } },
  'ES module, nodenext': { file: 'use.mts', options: { module: 'nodenext' } },
  'CommonJS, node10': { file: 'use10.ts', options: { module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '6.0', noEmit: true } },
  'ES module, bundler': { file: 'use.ts', options: { module: 'esnext', moduleResolution: 'bundler', noEmit: true } },
};
// That the README and the example name.
const OLDEST_TYPESCRIPT = /"typescript": ">=([\d.]+)"/.exec(readFileSync('docs/examples/typescript/package.json', 'utf8'))[1];
const began = performance.now();
const say = (what) => console.log(`client: ${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${what}`);
const sqlite = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages['node_modules/better-sqlite3'].version;

const folder = mkdtempSync(join(tmpdir(), 'plantroom-client-'));
const server = await startServer(folder);
try {
  const { file, files } = buildClient();
  say(`packed: ${files.length} files, none of the server`);
  const old = await otherNode();
  const nodes = [{ node: process.execPath, version: process.version }, ...(old ? [old] : [])];
  say(old ? `runs on ${nodes.map(({ version }) => version).join(' and ')}` : `NOT HERE: no older Node on this machine beside ${process.version}: nothing ran on one`);
  const { project, site } = await strictConsumers(file);
  const siteFile = join(folder, 'site.json');
  writeFileSync(siteFile, JSON.stringify({ ...site, ...server.options, ca: undefined, caFile: server.flags[3] }));
  await runConsumers(project, nodes, siteFile);
  await runBundle(project, nodes, siteFile);
  await runExamples(file, nodes, site);
  await protosTwice();
  say('1 package, proven: PASSED');
} finally {
  const ended = await server.stop();
  rmSync(folder, { recursive: true, force: true });
  if (ended !== 0) {
    console.error(`client: the server ended with ${ended}`);
    process.exitCode = 1;
  }
}

/** An empty project without better-sqlite3: every kind of consumer type-checks in it. */
async function strictConsumers(file) {
  const texts = Object.values(CONSUMERS).map(({ file: name }) => [name, CONSUMER]);
  const configs = Object.values(CONSUMERS).map(({ file: name, options }) => [`tsconfig.${name}.json`, JSON.stringify({ compilerOptions: { ...STRICT, ...options }, files: [name] })]);
  const project = await makeProject(join(folder, 'consumer'), { files: Object.fromEntries([...texts, ...configs]), packages: [file] });
  assert.ok(!project.installed.includes('better-sqlite3'), 'better-sqlite3 must be optional');
  say(`installed into an empty project: ${project.installed.length} packages`);
  const [site] = await Promise.all([makeSite(project.require, server.options), ...Object.values(CONSUMERS).map(({ file: name }) => compile(project.folder, `tsconfig.${name}.json`))]);
  say(`type-checks with strict, exactOptionalPropertyTypes, noUncheckedIndexedAccess and without skipLibCheck: ${Object.keys(CONSUMERS).join('; ')}`);
  return { project, site };
}

/** Both kinds of modules, on each Node: they call, and are a gateway. */
async function runConsumers({ folder: cwd }, nodes, siteFile) {
  let position = 0;
  for (const name of ['use.cjs', 'use.mjs']) for (const { node } of nodes) assert.match(await run(node, [name, siteFile, String((position += 5))], { cwd }), /CONSUMER DONE/);
  say(`CommonJS and ES module: lists, refusals, a gateway in memory, a command until converged, on ${nodes.length} Node`);
}

/** One file, in a folder without node_modules, as both kinds of modules; one that is an ES module needs what the README says. */
async function runBundle({ folder: project }, nodes, siteFile) {
  const cwd = mkdtempSync(join(folder, 'bundle-'));
  const [, banner] = /--banner:js='([^']+)'/.exec(readFileSync('src/client/README.md', 'utf8')) ?? [];
  assert.ok(banner, 'the README must say how a bundle that is an ES module is made');
  const whole = { bundle: true, platform: 'node', target: 'node20', minify: true, metafile: true, external: ['better-sqlite3'], absWorkingDir: project, entryPoints: ['use.mts'], logLevel: 'warning' };
  const kinds = [{ format: 'cjs', outfile: join(cwd, 'use.cjs') }, { format: 'esm', outfile: join(cwd, 'use.mjs'), banner: { js: banner } }];
  let position = 50;
  for (const { outfile, ...kind } of kinds) {
    const { metafile } = await build({ ...whole, ...kind, outfile });
    const [{ bytes }] = Object.values(metafile.outputs);
    for (const { node } of nodes) assert.match(await run(node, [outfile, siteFile, String((position += 1))], { cwd }), /CONSUMER DONE/);
    say(`bundled to one file of ${Math.round(bytes / 1024)} KiB, ${kind.format}, which does the same outside of node_modules`);
  }
}

/** The examples of docs/examples/typescript and of the README, compiled; the gateway with its store on disk, the client until converged. */
async function runExamples(file, nodes, { connectionId, deviceId, commandId }) {
  const blocks = [...readFileSync('src/client/README.md', 'utf8').matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, text], at) => [`readme${at}.ts`, text]);
  assert.ok(blocks.length >= 4, 'the README of the package must show how it is used');
  const examples = resolve('docs/examples/typescript');
  const { folder: cwd } = await makeProject(join(folder, 'examples'), { from: examples, files: Object.fromEntries(blocks), packages: [file, `better-sqlite3@${sqlite}`, `oldest-typescript@npm:typescript@${OLDEST_TYPESCRIPT}`] });
  writeFileSync(join(cwd, 'tsconfig.strict.json'), JSON.stringify({ extends: './tsconfig.json', compilerOptions: { skipLibCheck: false } }));
  await compile(cwd, 'tsconfig.strict.json');
  await run(process.execPath, ['node_modules/oldest-typescript/bin/tsc', '-p', 'tsconfig.strict.json', '--noEmit'], { cwd });
  say(`the examples and ${blocks.length} blocks of the README type-check, with TypeScript ${OLDEST_TYPESCRIPT} too`);
  const gateway = ['dist/gateway.js', ...server.flags, '--connection', connectionId, '--store', 'gateway.db', '--every', '0.5'];
  const { env } = server;
  await assert.rejects(run(process.execPath, ['dist/client.js', ...server.flags, '--device', deviceId], { cwd, env }), /give both --device and --command/);
  const running = start(process.execPath, gateway, { cwd, env });
  await running.until('attached');
  for (const [at, { node, version }] of nodes.entries()) {
    const said = await run(node, ['dist/client.js', ...server.flags, '--device', deviceId, '--command', commandId, '--params', `{"position": ${60 + at}}`], { cwd, env });
    assert.match(said, /^device \S+ Heating valve$[\s\S]*^execution \S+$[\s\S]*^state converged$/m);
    say(`the examples, the client on ${version}, the gateway with its store on disk: ${said.match(/^state \w+/gm).join(', ')}`);
  }
  assert.equal(await running.stop(), 0, 'a gateway must end in peace');
  for (const { node } of nodes.filter(({ version }) => version.startsWith('v20.'))) {
    await assert.rejects(run(node, gateway, { cwd, env }), /store_unusable[\s\S]*needs Node 22|needs Node 22[\s\S]*store_unusable/);
    say(`better-sqlite3 ${sqlite} on Node 20, for which it is too new: refused, the process lives`);
  }
}

/** The bundle of protos: buf is content with what was unpacked, and it is made twice of the same bytes. */
async function protosTwice() {
  const first = await buildProtos(join(folder, 'protos1'));
  mkdirSync(join(folder, 'unpacked'));
  await run('tar', ['xzf', first.archive, '-C', join(folder, 'unpacked')], {});
  const cwd = join(folder, 'unpacked', first.folder.split(/[\\/]/).at(-1));
  const buf = resolve('node_modules/.bin/buf');
  await run(buf, ['lint'], { cwd });
  await run(buf, ['build', '-o', 'again.binpb', '--as-file-descriptor-set'], { cwd });
  assert.ok(readFileSync(join(cwd, 'again.binpb')).equals(readFileSync(join(cwd, 'plantroom.binpb'))), 'plantroom.binpb must be what the protos beside it compile to');
  const second = await buildProtos(join(folder, 'protos2'));
  assert.equal(first.sha256, second.sha256, 'the bundle of protos must be the same bytes each time');
  say(`bundle of protos: ${first.files.length} files, made twice of the same bytes, lints and builds where it was unpacked`);
}
