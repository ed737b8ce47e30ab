// Generates the stubs and the descriptor image from proto/, bundles the program, and lays its files beside it.
import Database from 'better-sqlite3';
import { build } from 'esbuild';
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, renameSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { layOpenApi } from './openapi.mjs';

const assets = 'dist/assets';
mkdirSync(assets, { recursive: true });
const env = { ...process.env, PATH: join(process.cwd(), 'node_modules', '.bin') + delimiter + process.env.PATH };
const buf = (...args) => execFileSync('buf', args, { env, stdio: 'inherit', shell: process.platform === 'win32' });
buf('generate');
buf('generate', '--template', 'buf.gen.client.yaml');
buf('build', 'proto', '--exclude-source-info', '-o', `${assets}/image.binpb`);

const common = {
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  logLevel: 'warning',
  legalComments: 'none',
  sourcemap: true,
  sourcesContent: false,
  define: { 'import.meta.url': 'importMetaUrl', PLANTROOM_COMMIT: JSON.stringify(commit()), PLANTROOM_SQLITE: JSON.stringify(sqliteVersion()) },
  banner: { js: "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;" },
  external: ['pg-native', 'pg-query-stream', 'mysql', 'mysql2', 'oracledb', 'sqlite3', 'tedious', 'mariadb', 'mariadb/callback', 'cloudflare:sockets', 'pino-pretty'],
};
const programs = { main: 'src/main.ts', bench: 'scripts/bench/bench.ts', 'bench-echo': 'scripts/bench/echoServer.ts', 'bench-unaudited': 'scripts/bench/unauditedServer.ts', 'bench-rest-echo': 'scripts/bench/restEchoServer.ts', 'bench-broker': 'scripts/bench/aedesServer.ts', crash: 'scripts/crash/crash.ts', soak: 'scripts/soak/soak.ts', 'gateway-proof': 'scripts/gatewayProof/gatewayProof.ts' };
// Node keeps the text of a program in memory, and twice as much of one that has a letter beyond ASCII, as comments of packages do: 19 MB of the server's.
const lean = { minifyWhitespace: true, lineLimit: 160 };
for (const [name, entry] of Object.entries(programs)) if (existsSync(entry)) await build({ ...common, ...(name === 'main' && lean), entryPoints: [entry], outfile: `dist/${name}.js` });

// The thread that folds SQLite's write-ahead log.
await build({ ...common, sourcemap: false, entryPoints: ['src/database/engines/checkpointWorker.ts'], outfile: `${assets}/checkpointWorker.js` });

// The sandbox: the thread's program, the engine beside it, and what runs inside the engine, which is no Node.
const inside = { bundle: true, platform: 'browser', target: 'es2022', format: 'iife', minify: true, charset: 'ascii', logLevel: 'warning', legalComments: 'none' };
await build({ ...common, sourcemap: false, minify: true, entryPoints: ['src/codec/worker/worker.ts'], outfile: `${assets}/codecWorker.js` });
for (const name of ['encoderGuest', 'decoderGuest']) await build({ ...inside, entryPoints: [`src/codec/guest/${name}.ts`], outfile: `${assets}/${name}.js` });
for (const name of ['encoding', 'require']) await build({ ...inside, entryPoints: [`src/codec/guest/${name}.ts`], outfile: `${assets}/${name}-prelude.js` });
const buffer = "Object.defineProperty(globalThis, 'Buffer', { value: require('buffer/').Buffer, writable: true, configurable: true })";
await build({ ...inside, stdin: { contents: buffer, resolveDir: process.cwd() }, outfile: `${assets}/buffer-prelude.js` });
copyFileSync('node_modules/@jitl/quickjs-wasmfile-release-sync/dist/emscripten-module.wasm', `${assets}/quickjs.wasm`);

// Pictures: the thread's program and the codecs beside it.
await build({ ...common, sourcemap: false, minify: true, entryPoints: ['src/media/worker/worker.ts'], outfile: `${assets}/mediaWorker.js` });
const codecs = {
  jpegDecoder: 'jpeg/codec/dec/mozjpeg_dec.wasm',
  pngDecoder: 'png/codec/pkg/squoosh_png_bg.wasm',
  webpDecoder: 'webp/codec/dec/webp_dec.wasm',
  webpEncoder: 'webp/codec/enc/webp_enc_simd.wasm',
  avifDecoder: 'avif/codec/dec/avif_dec.wasm',
};
for (const [name, file] of Object.entries(codecs)) copyFileSync(`node_modules/@jsquash/${file}`, `${assets}/${name}.wasm`);

await layOpenApi(assets, buf);

// Renamed into place: a process that runs has the old file mapped, and would crash if it were written over.
copyFileSync(`node_modules/better-sqlite3/prebuilds/${process.platform}-${process.arch}.node`, `${assets}/better_sqlite3.node.new`);
renameSync(`${assets}/better_sqlite3.node.new`, `${assets}/better_sqlite3.node`);

function sqliteVersion() {
  const memory = new Database(':memory:');
  const { version } = memory.prepare('select sqlite_version() as version').get();
  memory.close();
  return version;
}

function commit() {
  if (process.env.BUILD_COMMIT) return process.env.BUILD_COMMIT; // where git is not, as in the image's build
  try {
    return execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown'; // a source archive without git
  }
}
