// Makes the bundle of protos for other languages: dist/protos/plantroom-protos-<version>, and the same as .tar.gz. The same sources give the same bytes.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { bufYaml, readme, templates } from './texts.mjs';

const OUT = 'dist/protos';
// Formats of others: ChirpStack's uplinks, and the services of gRPC itself, which come with gRPC in every language; a folder `grpc` would hide Python's package.
const FOREIGN = ['chirpstack', 'grpc'];
// What ours import, and what the details of errors are; google/protobuf comes with every protoc.
const IMPORTED = ['google/api/annotations.proto', 'google/api/http.proto', 'google/rpc/error_details.proto', 'google/rpc/status.proto'];
const GOOGLE = 'node_modules/google-proto-files';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

const env = { ...process.env, PATH: resolve('node_modules/.bin') + delimiter + process.env.PATH };
const byName = (a, b) => (a < b ? -1 : 1);
const filesBelow = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile()).map((file) => posix.join(file.parentPath, file.name).slice(folder.length + 1)).toSorted(byName);

/** Makes the folder and the archive. Gives their paths and the archive's SHA-256. */
export async function buildProtos(out = OUT) {
  const name = `plantroom-protos-${version}`;
  const folder = join(out, name);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const ours = filesBelow('proto').filter((file) => file.endsWith('.proto') && !FOREIGN.includes(file.split('/')[0]));
  for (const file of ours) copy(join('proto', file), join(folder, file));
  for (const file of IMPORTED) copy(join(GOOGLE, file), join(folder, file));
  writeFileSync(join(folder, 'VERSION'), `${version}\n`);
  writeFileSync(join(folder, 'buf.yaml'), bufYaml(readFileSync('buf.yaml', 'utf8')));
  writeFileSync(join(folder, 'README.md'), readme(version));
  for (const [file, text] of Object.entries(templates)) writeFileSync(join(folder, file), text);
  buf(folder, 'lint');
  buf(folder, 'build', '--as-file-descriptor-set', '-o', 'plantroom.binpb');
  const archive = `${folder}.tar.gz`;
  const bytes = await archiveOf(folder, name);
  writeFileSync(archive, bytes);
  return { folder, archive, sha256: createHash('sha256').update(bytes).digest('hex'), files: filesBelow(folder) };
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

function buf(folder, ...args) {
  try {
    execFileSync('buf', args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8', shell: process.platform === 'win32' });
  } catch (cause) {
    throw new Error(`buf ${args[0]} fails in ${folder}: ${cause.stdout}`, { cause });
  }
}

/** Sorted, of no time and nobody: the same files give the same bytes. */
async function archiveOf(folder, name) {
  const tar = pack();
  const mtime = new Date(0);
  const folders = new Set();
  for (const file of filesBelow(folder)) {
    for (const part of parentsOf(file).filter((parent) => !folders.has(parent))) {
      folders.add(part);
      tar.entry({ name: posix.join(name, part), type: 'directory', mode: 0o755, mtime });
    }
    tar.entry({ name: posix.join(name, file), mode: 0o644, mtime }, readFileSync(join(folder, file)));
  }
  tar.finalize();
  const chunks = [];
  for await (const chunk of tar) chunks.push(chunk);
  const bytes = gzipSync(Buffer.concat(chunks), { level: 9 });
  bytes[9] = 255; // the operating system that packed it: not said
  return bytes;
}

/** The folders that a file lies in, the uppermost first. */
function parentsOf(file) {
  const parts = file.split('/').slice(0, -1);
  return ['', ...parts.map((_, at) => parts.slice(0, at + 1).join('/'))];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { archive, sha256, files } = await buildProtos();
  console.log(`protos: ${archive}, ${files.length} files, sha256 ${sha256}`);
}
