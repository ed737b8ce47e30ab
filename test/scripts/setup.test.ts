import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const BUILT = ['dist/main.js', 'src/gen/stub.ts', 'src/client/gen/stub.ts'];
const BUILD = `import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
for (const file of ${JSON.stringify(BUILT)}) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, '');
}`;

describe('setup', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-setup-'));
    const installed = `${createHash('sha256').update('package-lock.json{}').digest('hex')} ${process.platform}-${process.arch}`;
    const files = {
      'package-lock.json': '{}',
      'buf.yaml': '',
      'buf.gen.yaml': '',
      'buf.gen.client.yaml': '',
      'proto/a.proto': '',
      'src/main.ts': '',
      'scripts/build.mjs': BUILD,
      'node_modules/.plantroom-installed': installed,
    };
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
    cpSync('scripts/setup.mjs', join(folder, 'scripts/setup.mjs'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  // Runs without npm, so that this test cannot install anything.
  const setup = (): string =>
    spawnSync(process.execPath, ['scripts/setup.mjs'], {
      cwd: folder,
      env: { ...process.env, npm_execpath: 'none' },
      encoding: 'utf8',
    }).stderr;

  it('builds missing parts, and prints nothing if there is nothing to do', () => {
    expect(setup()).toContain('setup: building\n');
    expect(setup()).toBe('');
    for (const file of BUILT) {
      rmSync(join(folder, dirname(file)), { recursive: true });
      expect(setup()).toContain('setup: building\n');
      expect(existsSync(join(folder, file))).toBe(true);
    }
  });
});
