import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const CHECK = resolve('scripts/notices/checkLicenses.mjs');

interface Package {
  readonly license?: string;
  readonly dev?: boolean;
  readonly version?: string;
}

describe('the license check in lint', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-licenses-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function write(file: string, content: unknown): void {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), JSON.stringify(content));
  }

  /** Runs the check on a lock file with these packages, some of which are bundled. */
  function check(
    packages: Readonly<Record<string, Package>>,
    bundled: readonly string[] = [],
  ): { readonly code: number | null; readonly stderr: string } {
    const entries = Object.entries(packages).map(([name, packageInfo]) => [
      `node_modules/${name}`,
      { version: '1.0.0', ...packageInfo },
    ]);
    write('package-lock.json', { packages: { '': { license: 'UNLICENSED' }, ...Object.fromEntries(entries) } });
    for (const name of bundled)
      write(`node_modules/${name}/package.json`, { name, version: '1.0.0', license: packages[name]?.license });
    write(
      'dist/bundled-packages.json',
      bundled.map((name) => `node_modules/${name}`),
    );
    const { status, stderr } = spawnSync(process.execPath, [CHECK], { cwd: folder, encoding: 'utf8' });
    return { code: status, stderr };
  }

  it('passes for this project', () => {
    expect(spawnSync(process.execPath, [CHECK], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
  });

  it('allows licenses, and expressions of which an allowed license can be chosen', () => {
    const allowed = [
      'MIT',
      'ISC',
      '0BSD',
      'BSD-2-Clause',
      'BSD-3-Clause',
      'Apache-2.0',
      'CC0-1.0',
      'BlueOak-1.0.0',
      'Unicode-3.0',
      '(MIT OR GPL-3.0-only)',
      'GPL-3.0-only OR (Apache-2.0 AND BSD-3-Clause)',
    ];
    const packages = Object.fromEntries(allowed.map((license, index) => [`valve${index}`, { license }]));
    expect(check(packages)).toEqual({ code: 0, stderr: '' });
  });

  it('rejects other licenses and texts that are no expression, one line each', () => {
    const rejected = [
      ['GPL-3.0', 'the license GPL-3.0 is not allowed'],
      ['(MIT AND GPL-3.0-only)', 'the license (MIT AND GPL-3.0-only) is not allowed'],
      ['MIT AND (ISC OR MIT) AND LGPL-2.1-only', 'the license MIT AND (ISC OR MIT) AND LGPL-2.1-only is not allowed'],
      ['Apache-2.0 WITH LLVM-exception', 'the license Apache-2.0 WITH LLVM-exception is not allowed'],
      ['BUSL-1.1', 'the license BUSL-1.1 is not allowed'],
      ['UNLICENSED', 'the license UNLICENSED is not allowed'],
      ['blessing', 'the license blessing is not allowed'],
      ['SEE LICENSE IN LICENSE.md', 'the license "SEE LICENSE IN LICENSE.md" is not an SPDX expression'],
      ['(MIT', 'the license "(MIT" is not an SPDX expression'],
      ['', 'no license is declared'],
    ] as const;
    const packages = Object.fromEntries(rejected.map(([license], index) => [`valve${index}`, { license }]));
    const { code, stderr } = check({ ...packages, pump: { license: 'MIT' } });
    const lines = stderr.trimEnd().split('\n');
    expect([code, lines]).toEqual([
      1,
      [
        ...rejected.map(([, message], index) => expect.stringContaining(`valve${index} 1.0.0: ${message}`)),
        expect.stringMatching(/^Use a package with one of these licenses: 0BSD, .*add an exception/),
      ],
    ]);
  });

  it('rejects a package without a license', () => {
    expect(check({ valve: {} })).toMatchObject({ code: 1, stderr: expect.stringContaining('no license is declared') });
  });

  it('checks development packages only if the build bundles them', () => {
    const packages = { '@site/valve': { license: 'GPL-3.0-only', dev: true } };
    expect(check(packages)).toEqual({ code: 0, stderr: '' });
    expect(check(packages, ['@site/valve'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('@site/valve 1.0.0: the license GPL-3.0-only is not allowed'),
    });
  });

  it('requires a review of compiled code when its package has a new version', () => {
    expect(check({ '@jsquash/webp': { license: 'Apache-2.0' } }, ['@jsquash/webp'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('@jsquash/webp is now 1.0.0. Check which libraries its compiled code contains'),
    });
  });
});
