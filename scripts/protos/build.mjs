// Builds the proto bundle for other languages: dist/protos/plantroom-protos-<version> and its .tar.gz. The build is
// reproducible.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { createBufYaml, createReadme, bufTemplates } from './texts.mjs';

const OUT = 'dist/protos';
// Third-party protos that are not in the bundle: the ChirpStack format, and the services of gRPC, which are part of
// gRPC in every language; a folder `grpc` would hide the Python package.
const FOREIGN = ['chirpstack', 'grpc'];
// Imports of our protos, and the error details; google/protobuf is part of every protoc.
const IMPORTED = [
  'google/api/annotations.proto',
  'google/api/http.proto',
  'google/rpc/error_details.proto',
  'google/rpc/status.proto',
];
const GOOGLE = 'node_modules/google-proto-files';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

const env = { ...process.env, PATH: resolve('node_modules/.bin') + delimiter + process.env.PATH };
const byName = (a, b) => (a < b ? -1 : 1);
const listFiles = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => posix.join(file.parentPath, file.name).slice(folder.length + 1))
    .toSorted(byName);

/** Builds the folder and the archive. Returns their paths, the SHA-256 of the archive, and the files. */
export async function buildProtos(out = OUT) {
  const name = `plantroom-protos-${version}`;
  const folder = join(out, name);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const ours = listFiles('proto').filter((file) => file.endsWith('.proto') && !FOREIGN.includes(file.split('/')[0]));
  for (const file of ours) copy(join('proto', file), join(folder, file));
  for (const file of IMPORTED) copy(join(GOOGLE, file), join(folder, file));
  writeFileSync(join(folder, 'VERSION'), `${version}\n`);
  writeFileSync(join(folder, 'buf.yaml'), createBufYaml(readFileSync('buf.yaml', 'utf8')));
  writeFileSync(join(folder, 'README.md'), createReadme(version));
  for (const [file, text] of Object.entries(bufTemplates)) writeFileSync(join(folder, file), text);
  buf(folder, 'lint');
  buf(folder, 'build', '--as-file-descriptor-set', '-o', 'plantroom.binpb');
  const archive = `${folder}.tar.gz`;
  const bytes = await buildArchive(folder, name);
  writeFileSync(archive, bytes);
  return { folder, archive, sha256: createHash('sha256').update(bytes).digest('hex'), files: listFiles(folder) };
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

function buf(folder, ...args) {
  try {
    execFileSync('buf', args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
      encoding: 'utf8',
      shell: process.platform === 'win32',
    });
  } catch (cause) {
    throw new Error(`buf ${args[0]} fails in ${folder}: ${cause.stdout}`, { cause });
  }
}

/** Builds the archive with sorted entries and without times and owners, so that it is reproducible. */
async function buildArchive(folder, name) {
  const tar = pack();
  const mtime = new Date(0);
  const folders = new Set();
  for (const file of listFiles(folder)) {
    for (const part of listParents(file).filter((parent) => !folders.has(parent))) {
      folders.add(part);
      tar.entry({ name: posix.join(name, part), type: 'directory', mode: 0o755, mtime });
    }
    tar.entry({ name: posix.join(name, file), mode: 0o644, mtime }, readFileSync(join(folder, file)));
  }
  tar.finalize();
  const chunks = [];
  for await (const chunk of tar) chunks.push(chunk);
  const bytes = gzipSync(Buffer.concat(chunks), { level: 9 });
  bytes[9] = 255; // operating system: unknown
  return bytes;
}

/** Lists the parent folders of a file, the topmost first. */
function listParents(file) {
  const parts = file.split('/').slice(0, -1);
  return ['', ...parts.map((_, at) => parts.slice(0, at + 1).join('/'))];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { archive, sha256, files } = await buildProtos();
  console.log(`protos: ${archive}, ${files.length} files, sha256 ${sha256}`);
}
