// Generates the stubs and the descriptor image from proto/, and bundles the program with its asset files into dist/.
import Database from 'better-sqlite3';
import { build } from 'esbuild';
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { BundledPackages } from './notices/bundledPackages.mjs';
import { findInstalledNode } from './notices/components.mjs';
import { NOTICES, writeNotices, writeSbom } from './notices/writeNotices.mjs';
import { writeOpenApi } from './openapi/writeOpenApi.mjs';

const assets = 'dist/assets';
mkdirSync(assets, { recursive: true });
const env = { ...process.env, PATH: join(process.cwd(), 'node_modules', '.bin') + delimiter + process.env.PATH };
const buf = (...args) => execFileSync('buf', args, { env, stdio: 'inherit', shell: process.platform === 'win32' });
const bundled = new BundledPackages();
buf('generate');
buf('generate', '--template', 'buf.gen.client.yaml');
writeDescriptors('image.binpb', '--exclude-source-info');
// For gRPC reflection, with comments. It is five times as large, so the server reads it only when a client asks for it.
writeDescriptors('reflection.binpb');

const common = {
  bundle: true,
  metafile: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  logLevel: 'warning',
  legalComments: 'none',
  sourcemap: true,
  sourcesContent: false,
  define: {
    'import.meta.url': 'importMetaUrl',
    PLANTROOM_COMMIT: JSON.stringify(readCommit()),
    PLANTROOM_SQLITE: JSON.stringify(readSqliteVersion()),
  },
  banner: { js: "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;" },
  external: [
    'pg-native',
    'pg-query-stream',
    'mysql',
    'mysql2',
    'oracledb',
    'sqlite3',
    'tedious',
    'mariadb',
    'mariadb/callback',
    'cloudflare:sockets',
    'pino-pretty',
  ],
};
const programs = {
  main: 'src/main.ts',
  bench: 'scripts/bench/bench.ts',
  'bench-echo': 'scripts/bench/echoServer.ts',
  'bench-unaudited': 'scripts/bench/unauditedServer.ts',
  'bench-rest-echo': 'scripts/bench/restEchoServer.ts',
  'bench-broker': 'scripts/bench/aedesServer.ts',
  crash: 'scripts/crash/crash.ts',
  soak: 'scripts/soak/soak.ts',
  'gateway-proof': 'scripts/gatewayProof/gatewayProof.ts',
};
// Node keeps the source text of a program in memory, with two bytes per character if it contains a character beyond
// ASCII, as comments of packages do. Without comments and white space the server needs 19 MB less.
const minifyOptions = { minifyWhitespace: true, lineLimit: 160 };
for (const [name, entry] of Object.entries(programs)) {
  if (!existsSync(entry)) continue;
  const isShipped = name === 'main'; // the others are development tools
  const result = await build({
    ...common,
    ...(isShipped && minifyOptions),
    entryPoints: [entry],
    outfile: `dist/${name}.js`,
  });
  if (isShipped) bundled.addBuild(result);
}

// The worker thread that checkpoints SQLite's write-ahead log.
await buildAsset({
  ...common,
  sourcemap: false,
  entryPoints: ['src/database/engines/checkpointWorker.ts'],
  outfile: `${assets}/checkpointWorker.js`,
});

// The codec sandbox: the worker thread, its JavaScript engine, and the code that runs inside that engine (not Node).
const guestOptions = {
  bundle: true,
  metafile: true,
  platform: 'browser',
  target: 'es2022',
  format: 'iife',
  minify: true,
  charset: 'ascii',
  logLevel: 'warning',
  legalComments: 'none',
};
await buildAsset({
  ...common,
  sourcemap: false,
  minify: true,
  entryPoints: ['src/codec/worker/worker.ts'],
  outfile: `${assets}/codecWorker.js`,
});
for (const name of ['encoderGuest', 'decoderGuest'])
  await buildAsset({ ...guestOptions, entryPoints: [`src/codec/guest/${name}.ts`], outfile: `${assets}/${name}.js` });
for (const name of ['encoding', 'require'])
  await buildAsset({
    ...guestOptions,
    entryPoints: [`src/codec/guest/${name}.ts`],
    outfile: `${assets}/${name}-prelude.js`,
  });
const buffer =
  "Object.defineProperty(globalThis, 'Buffer', { value: require('buffer/').Buffer, writable: true, configurable: true })";
await buildAsset({
  ...guestOptions,
  stdin: { contents: buffer, resolveDir: process.cwd() },
  outfile: `${assets}/buffer-prelude.js`,
});
bundled.copyFile(
  'node_modules/@jitl/quickjs-wasmfile-release-sync/dist/emscripten-module.wasm',
  `${assets}/quickjs.wasm`,
);

// The media worker and its image codecs.
await buildAsset({
  ...common,
  sourcemap: false,
  minify: true,
  entryPoints: ['src/media/worker/worker.ts'],
  outfile: `${assets}/mediaWorker.js`,
});
const codecs = {
  jpegDecoder: 'jpeg/codec/dec/mozjpeg_dec.wasm',
  pngDecoder: 'png/codec/pkg/squoosh_png_bg.wasm',
  webpDecoder: 'webp/codec/dec/webp_dec.wasm',
  webpEncoder: 'webp/codec/enc/webp_enc_simd.wasm',
  avifDecoder: 'avif/codec/dec/avif_dec.wasm',
};
for (const [name, file] of Object.entries(codecs))
  bundled.copyFile(`node_modules/@jsquash/${file}`, `${assets}/${name}.wasm`);

await writeOpenApi(assets, buf, bundled);

// Written to a new file and renamed: a running process has the old file mapped and would crash if it were overwritten.
bundled.copyFile(
  `node_modules/better-sqlite3/prebuilds/${process.platform}-${process.arch}.node`,
  `${assets}/better_sqlite3.node.new`,
);
renameSync(`${assets}/better_sqlite3.node.new`, `${assets}/better_sqlite3.node`);

// The notices are an asset too: `plantroom version --notices` prints them.
bundled.save();
writeNotices(`dist/${NOTICES}`, findInstalledNode());
copyFileSync(`dist/${NOTICES}`, `${assets}/${NOTICES}`);
writeSbom('dist/sbom.cdx.json', findInstalledNode());

/** Builds a file that is shipped with the program. */
async function buildAsset(options) {
  bundled.addBuild(await build(options));
}

/**
 * Writes the descriptors of the protos and of the error details in responses. Serialized descriptor sets can be
 * concatenated.
 */
function writeDescriptors(name, ...options) {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-descriptors-'));
  const google = 'node_modules/google-proto-files';
  bundled.addFile(`${google}/package.json`);
  const [protos, details] = [join(folder, 'protos.binpb'), join(folder, 'details.binpb')];
  buf('build', 'proto', ...options, '-o', protos);
  buf(
    'build',
    google,
    '--path',
    `${google}/google/rpc/error_details.proto`,
    '--exclude-imports',
    ...options,
    '-o',
    details,
  );
  writeFileSync(`${assets}/${name}`, Buffer.concat([readFileSync(protos), readFileSync(details)]));
  rmSync(folder, { recursive: true });
}

function readSqliteVersion() {
  const memory = new Database(':memory:');
  const { version } = memory.prepare('select sqlite_version() as version').get();
  memory.close();
  return version;
}

function readCommit() {
  if (process.env.BUILD_COMMIT) return process.env.BUILD_COMMIT; // set where git is not available, for example in the build of the image
  try {
    return execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return 'unknown'; // a source archive without git
  }
}
