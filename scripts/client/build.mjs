// Builds plantroom-client: dist/client/package, and packed dist/client/plantroom-client-<version>.tgz.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = 'src/client';
const OUT = 'dist/client';
const PACKAGE = join(OUT, 'package');
// What Node and TypeScript find under which name; `protos` are the stubs, by the path of their proto.
const EXPORTS = { '.': './index', './gateway': './gateway/index', './protos/*': './gen/*' };
// The declarations speak of AbortSignal, which Node's types declare; any version that knows Node 20 will do.
const TYPES = { '@types/node': '>=20' };
const ENTRIES = ['index.d.ts', 'gateway/index.d.ts'];
const ALLOWED = /^(package\.json|README\.md|\w+\.(js|d\.ts)|(calls|streams|pages|gateway|gen)\/[\w./]+\.(js|d\.ts))$/;

const read = (file) => readFileSync(file, 'utf8');
const readJson = (file) => JSON.parse(read(file));
const run = (command, args) => execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], shell: process.platform === 'win32' });
const filesBelow = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile()).map((file) => posix.join(file.parentPath, file.name).slice(folder.length + 1));

/** Builds and packs it. Gives the path of the package file, and the files in it. */
export function buildClient() {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(PACKAGE, { recursive: true });
  compile();
  writeFileSync(join(PACKAGE, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
  copyFileSync(join(SOURCE, 'README.md'), join(PACKAGE, 'README.md'));
  const files = filesBelow(PACKAGE);
  for (const file of files) check(file);
  // Written out, the types of the services lose what their methods say of themselves.
  if (read(join(PACKAGE, 'createPlantroomClient.d.ts')).includes('requestStream')) throw new Error('createPlantroomClient.d.ts writes services out instead of naming them');
  const [{ filename }] = JSON.parse(run('npm', ['pack', resolve(PACKAGE), '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', OUT]));
  return { file: resolve(OUT, filename), files };
}

function compile() {
  try {
    run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.client.json']);
  } catch (cause) {
    throw new Error(`plantroom-client does not compile:\n${cause.stdout}`, { cause });
  }
  const shown = new Set();
  for (const door of [...ENTRIES, ...filesBelow(PACKAGE).filter((name) => name.startsWith('gen/') && name.endsWith('.d.ts'))]) reach(door, shown);
  for (const file of filesBelow(PACKAGE).filter((name) => name.endsWith('.d.ts'))) {
    if (!shown.has(file)) {
      rmSync(join(PACKAGE, file)); // nobody outside can come by it
      continue;
    }
    const text = read(join(PACKAGE, file)).replaceAll('Uint8Array<ArrayBufferLike>', 'Uint8Array'); // older TypeScript knows no such parameter
    writeFileSync(join(PACKAGE, file), ENTRIES.includes(file) ? `/// <reference types="node" />\n${text}` : text);
  }
}

/** Adds a declaration to `reached`, and what it imports. */
function reach(file, reached) {
  if (reached.has(file)) return;
  reached.add(file);
  for (const name of importsOf(file)) if (name.startsWith('.')) reach(declarationOf(posix.join(posix.dirname(file), name)), reached);
}

function declarationOf(path) {
  return [`${path}.d.ts`, `${path}/index.d.ts`].find((file) => existsSync(join(PACKAGE, file)));
}

function importsOf(file) {
  return [...read(join(PACKAGE, file)).matchAll(/(?:\bfrom |\bimport\(|\brequire\()["']([^"']+)["']/g)].map(([, name]) => name);
}

/** The manifest of src/client, with the version of the server that it was made with, and with ranges that begin with the versions that its tests ran with. */
function manifest() {
  const { packages } = readJson('package-lock.json');
  const { dependencies, ...given } = readJson(join(SOURCE, 'package.json'));
  const ranges = Object.fromEntries(Object.keys(dependencies).map((name) => [name, `^${packages[`node_modules/${name}`].version}`]));
  const exports = Object.fromEntries(Object.entries(EXPORTS).map(([door, file]) => [door, { types: `${file}.d.ts`, default: `${file}.js` }]));
  return {
    ...given,
    version: readJson('package.json').version,
    exports: { ...exports, './package.json': './package.json' },
    // For compilers that do not read `exports` (moduleResolution node10, what `module: commonjs` means up to TypeScript 5); Node reads them.
    typesVersions: { '*': { 'protos/*': ['./gen/*'] } },
    dependencies: { ...ranges, ...TYPES },
  };
}

/** Nothing of the server, nothing of this machine, nothing that is not declared. */
function check(file) {
  if (!ALLOWED.test(file)) throw new Error(`${file} is not a file of plantroom-client`);
  const text = read(join(PACKAGE, file));
  if (text.includes(process.cwd())) throw new Error(`${file} names the folder that it was built in`);
  if (/\.(js|ts)$/.test(file)) for (const name of importsOf(file)) checkImport(file, name);
}

function checkImport(file, name) {
  if (name.startsWith('node:') || builtinModules.includes(name)) return;
  const isOwn = name.startsWith('.') && !posix.join(posix.dirname(file), name).startsWith('..');
  const { dependencies, peerDependencies } = readJson(join(SOURCE, 'package.json'));
  const isDeclared = Object.keys({ ...dependencies, ...peerDependencies }).some((declared) => name === declared || name.startsWith(`${declared}/`));
  if (!isOwn && !isDeclared) throw new Error(`${file} imports ${name}, which plantroom-client does not declare`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { file, files } = buildClient();
  console.log(`client: ${file}, ${files.length} files`);
}
