// Builds plantroom-client in dist/client/package and packs it as dist/client/plantroom-client-<version>.tgz.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = 'src/client';
const OUT = 'dist/client';
const PACKAGE = join(OUT, 'package');
// The exports of the package; `protos` are the stubs, by the path of their proto.
const EXPORTS = { '.': './index', './gateway': './gateway/index', './protos/*': './gen/*' };
// The declarations use AbortSignal, which Node's types declare; any version for Node 20 or later works.
const TYPES = { '@types/node': '>=20' };
const ENTRIES = ['index.d.ts', 'gateway/index.d.ts'];
const ALLOWED = /^(package\.json|README\.md|\w+\.(js|d\.ts)|(calls|streams|pages|gateway|gen)\/[\w./]+\.(js|d\.ts))$/;

const read = (file) => readFileSync(file, 'utf8');
const readJson = (file) => JSON.parse(read(file));
const run = (command, args) =>
  execFileSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    shell: process.platform === 'win32',
  });
const listFiles = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => posix.join(file.parentPath, file.name).slice(folder.length + 1));

/** Builds and packs the package. Returns the path of the package file, and its files. */
export function buildClient() {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(PACKAGE, { recursive: true });
  compile();
  writeFileSync(join(PACKAGE, 'package.json'), `${JSON.stringify(createManifest(), null, 2)}\n`);
  copyFileSync(join(SOURCE, 'README.md'), join(PACKAGE, 'README.md'));
  const files = listFiles(PACKAGE);
  for (const file of files) checkFile(file);
  // If the service types were expanded, their methods would lose their documentation.
  if (read(join(PACKAGE, 'createPlantroomClient.d.ts')).includes('requestStream'))
    throw new Error('createPlantroomClient.d.ts must reference the service types instead of expanding them');
  const [{ filename }] = JSON.parse(
    run('npm', ['pack', resolve(PACKAGE), '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', OUT]),
  );
  return { file: resolve(OUT, filename), files };
}

function compile() {
  try {
    run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.client.json']);
  } catch (cause) {
    throw new Error(`plantroom-client does not compile:\n${cause.stdout}`, { cause });
  }
  const reachable = new Set();
  for (const entry of [
    ...ENTRIES,
    ...listFiles(PACKAGE).filter((name) => name.startsWith('gen/') && name.endsWith('.d.ts')),
  ])
    collectReachable(entry, reachable);
  for (const file of listFiles(PACKAGE).filter((name) => name.endsWith('.d.ts'))) {
    if (!reachable.has(file)) {
      rmSync(join(PACKAGE, file)); // not reachable from an export
      continue;
    }
    const text = read(join(PACKAGE, file)).replaceAll('Uint8Array<ArrayBufferLike>', 'Uint8Array'); // older TypeScript has no such type parameter
    writeFileSync(join(PACKAGE, file), ENTRIES.includes(file) ? `/// <reference types="node" />\n${text}` : text);
  }
}

/** Adds a declaration file and its imports, recursively, to `reached`. */
function collectReachable(file, reached) {
  if (reached.has(file)) return;
  reached.add(file);
  for (const name of listImports(file))
    if (name.startsWith('.')) collectReachable(findDeclaration(posix.join(posix.dirname(file), name)), reached);
}

function findDeclaration(path) {
  return [`${path}.d.ts`, `${path}/index.d.ts`].find((file) => existsSync(join(PACKAGE, file)));
}

function listImports(file) {
  return [...read(join(PACKAGE, file)).matchAll(/(?:\bfrom |\bimport\(|\brequire\()["']([^"']+)["']/g)].map(
    ([, name]) => name,
  );
}

/**
 * Creates the manifest from that of src/client, with the version of the server, and with dependency ranges that start with the
 * tested versions.
 */
function createManifest() {
  const { packages } = readJson('package-lock.json');
  const { dependencies, ...ownFields } = readJson(join(SOURCE, 'package.json'));
  const ranges = Object.fromEntries(
    Object.keys(dependencies).map((name) => [name, `^${packages[`node_modules/${name}`].version}`]),
  );
  const exports = Object.fromEntries(
    Object.entries(EXPORTS).map(([entry, file]) => [entry, { types: `${file}.d.ts`, default: `${file}.js` }]),
  );
  return {
    ...ownFields,
    version: readJson('package.json').version,
    exports: { ...exports, './package.json': './package.json' },
    // For compilers that ignore `exports` (moduleResolution node10, the default of `module: commonjs` up to TypeScript
    // 5).
    typesVersions: { '*': { 'protos/*': ['./gen/*'] } },
    dependencies: { ...ranges, ...TYPES },
  };
}

/** Checks that a file belongs to the package, contains no path of this machine, and imports only declared packages. */
function checkFile(file) {
  if (!ALLOWED.test(file)) throw new Error(`${file} is not a file of plantroom-client`);
  const text = read(join(PACKAGE, file));
  if (text.includes(process.cwd())) throw new Error(`${file} contains the path of the build folder`);
  if (/\.(js|ts)$/.test(file)) for (const name of listImports(file)) checkImport(file, name);
}

function checkImport(file, name) {
  if (name.startsWith('node:') || builtinModules.includes(name)) return;
  const isOwn = name.startsWith('.') && !posix.join(posix.dirname(file), name).startsWith('..');
  const { dependencies, peerDependencies } = readJson(join(SOURCE, 'package.json'));
  const isDeclared = Object.keys({ ...dependencies, ...peerDependencies }).some(
    (declared) => name === declared || name.startsWith(`${declared}/`),
  );
  if (!isOwn && !isDeclared) throw new Error(`${file} imports ${name}, which plantroom-client does not declare`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { file, files } = buildClient();
  console.log(`client: ${file}, ${files.length} files`);
}
