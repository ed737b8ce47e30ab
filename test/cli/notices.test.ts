import { existsSync } from 'node:fs';
import { dependencies } from '../../package.json';
import { plantroom, plantroomInShell } from '../support/commandLine';

const versions = Object.keys(dependencies).map((name) => {
  const { version } = require(`../../node_modules/${name}/package.json`) as { version: string };
  return `${name} ${version}`;
});

describe('plantroom version --notices', () => {
  it('prints every dependency and its bundled libraries with their licenses', async () => {
    const { code, stdout, stderr } = await plantroom(['version', '--notices']);
    expect([code, stderr]).toEqual([0, '']);
    const lines = stdout.split('\n');
    expect(versions.filter((name) => !lines.some((line) => line.startsWith(`  ${name} (`)))).toEqual([]);
    const libraries = [
      'SQLite',
      'QuickJS',
      'MozJPEG',
      'libwebp',
      'libaom',
      'libavif',
      'png',
      'swagger-ui-dist',
      'buffer',
    ];
    const withNode = [...libraries, ...(existsSync('node_modules/.bin/node') ? ['Node.js'] : [])];
    expect(withNode.filter((name) => !lines.some((line) => line.startsWith(`  ${name} `)))).toEqual([]);
    // Tools for development are not shipped.
    expect(stdout).not.toMatch(/^ {2}(jest|esbuild|typescript|aedes) /m);
    expect(stdout).toContain('May you do good and not evil.');
    expect(stdout).toContain('based in part on the work of the Independent JPEG Group');
    // Packages with the same license text share one section.
    expect(stdout).toMatch(/^@opentelemetry\/core .*\n@opentelemetry\//m);
  });

  it('prints one JSON value with --json', async () => {
    const { code, stdout } = await plantroom(['version', '--notices', '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      { notices: expect.stringMatching(/^Third-party notices of Plantroom \d/) as string },
    ]);
  });

  it('exits without an error if the reader closes the pipe', async () => {
    const { code, stdout, stderr } = await plantroomInShell('{ "$@"; echo "ended with $?" >&2; } | head -n 1', [
      'version',
      '--notices',
    ]);
    expect([code, stderr]).toEqual([0, 'ended with 0\n']);
    expect(stdout).toMatch(/^Third-party notices of Plantroom \d+\.\d+\.\d+\n$/);
  });
});
