// Tests a client that a public generator creates from the OpenAPI document: generates it, checks the types of a program
// that uses it, and runs this program against a real server.
import { createClient } from '@hey-api/openapi-ts';
import { build } from 'esbuild';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withTemporaryServer } from './temporaryServer.mjs';

// As strict as our own code; with the browser library, for fetch.
const compilerOptions = {
  target: 'es2023',
  lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'],
  module: 'nodenext',
  moduleResolution: 'nodenext',
  strict: true,
  noUncheckedIndexedAccess: true,
  noEmit: true,
  types: [],
};

const folder = mkdtempSync(join(tmpdir(), 'plantroom-client-'));
try {
  await createClient({
    input: 'dist/assets/openapi.json',
    output: join(folder, 'client'),
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    logs: { level: 'error' },
  });
  copyFileSync('scripts/rest/clientProgram.txt', join(folder, 'use.ts'));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['**/*.ts'] }));
  execFileSync('node_modules/.bin/tsc', ['-p', folder], { stdio: 'inherit', shell: process.platform === 'win32' });
  await build({
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node24',
    entryPoints: [join(folder, 'use.ts')],
    outfile: join(folder, 'use.cjs'),
    logLevel: 'warning',
  });
  process.exitCode = await withTemporaryServer(
    async ({ base, headers }) =>
      spawnSync(process.execPath, [join(folder, 'use.cjs'), base, headers['X-API-Key'], headers['X-Organization-Id']], {
        stdio: 'inherit',
        timeout: 60_000,
      }).status ?? 1,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
