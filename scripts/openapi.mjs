// The OpenAPI document, from an image with comments that nobody needs afterwards, and the pages that show it.
import { build } from 'esbuild';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const OURS = ['index.html', 'start.js', 'style.css'];
const LIBRARY = {
  'swagger-ui.css': 'swagger-ui.css',
  'swagger-ui-bundle.js': 'swagger-ui-bundle.js',
  'favicon-32x32.png': 'favicon-32x32.png',
  'LICENSE.txt': 'LICENSE',
  'NOTICE.txt': 'NOTICE',
  'THIRD-PARTY.txt': 'swagger-ui-bundle.js.LICENSE.txt',
};

/** Lays openapi.json and docs/ into the assets. `buf` runs buf with these arguments. */
export async function layOpenApi(assets, buf) {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-build-'));
  try {
    buf('build', 'proto', '-o', join(folder, 'image.binpb'));
    await build({ bundle: true, platform: 'node', target: 'node24', format: 'cjs', logLevel: 'warning', entryPoints: ['src/rpc/openapi/generate.ts'], outfile: join(folder, 'generate.cjs') });
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
    const { generate } = createRequire(import.meta.url)(join(folder, 'generate.cjs'));
    writeFileSync(`${assets}/openapi.json`, generate(readFileSync(join(folder, 'image.binpb')), version));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  mkdirSync(`${assets}/docs`, { recursive: true });
  for (const name of OURS) copyFileSync(`src/rpc/openapi/pages/${name}`, `${assets}/docs/${name}`);
  for (const [name, from] of Object.entries(LIBRARY)) copyFileSync(`node_modules/swagger-ui-dist/${from}`, `${assets}/docs/${name}`);
}
