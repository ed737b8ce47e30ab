// Generates the OpenAPI documents from a temporary proto image with comments, and copies the pages that display them.
import { build } from 'esbuild';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const OWN_FILES = ['index.html', 'start.js', 'style.css'];
const LIBRARY_FILES = {
  'swagger-ui.css': 'swagger-ui.css',
  'swagger-ui-bundle.js': 'swagger-ui-bundle.js',
  'favicon-32x32.png': 'favicon-32x32.png',
  'LICENSE.txt': 'LICENSE',
  'NOTICE.txt': 'NOTICE',
  'THIRD-PARTY.txt': 'swagger-ui-bundle.js.LICENSE.txt',
};

/**
 * Writes openapi.json, openapi-grpc.json and docs/ into the assets. `buf` runs buf with the given arguments; `bundled`
 * records the copied files.
 */
export async function writeOpenApi(assets, buf, bundled) {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-build-'));
  try {
    buf('build', 'proto', '-o', join(folder, 'image.binpb'));
    await build({
      bundle: true,
      platform: 'node',
      target: 'node24',
      format: 'cjs',
      logLevel: 'warning',
      entryPoints: ['scripts/openapi/generate.ts'],
      outfile: join(folder, 'generate.cjs'),
    });
    const { generate } = createRequire(import.meta.url)(join(folder, 'generate.cjs'));
    const image = readFileSync(join(folder, 'image.binpb'));
    writeFileSync(`${assets}/openapi.json`, generate(image, 'rest'));
    writeFileSync(`${assets}/openapi-grpc.json`, generate(image, 'grpc'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  mkdirSync(`${assets}/docs`, { recursive: true });
  for (const name of OWN_FILES) copyFileSync(`src/api/openapi/pages/${name}`, `${assets}/docs/${name}`);
  for (const [name, from] of Object.entries(LIBRARY_FILES))
    bundled.copyFile(`node_modules/swagger-ui-dist/${from}`, `${assets}/docs/${name}`);
}
