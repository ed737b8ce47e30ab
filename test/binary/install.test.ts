import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { BINARY } from './binary';

const INSTALL = resolve('deploy/install.sh');

/** Replaces systemctl: runs the server as the unit does, in the folder with its settings. */
const SYSTEMCTL = `#!/bin/sh
pid=$STATE/pid
alive() { [ -e "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }
case $1 in
  is-active) alive ;;
  show) if alive; then echo ActiveState=active; else echo ActiveState=activating; echo NRestarts=2; fi ;;
  start | restart) cd "$ROOT/etc/plantroom" && { env $(cat plantroom.env) "$ROOT/usr/local/bin/plantroom" serve --config plantroom.yaml >>"$STATE/log" 2>&1 & echo $! >"$pid"; } ;;
  stop | disable) if alive; then kill "$(cat "$pid")"; while alive; do sleep 0.1; done; fi; rm -f "$pid" ;;
esac
`;

/**
 * Returns a version that never becomes healthy. Before it fails it does `harm` to the database, as its migrations may.
 */
const createFailingVersion = (version: string, harm: string): string => `#!/bin/sh
case $1 in
  version) echo '{"version":"${version}"}' ;;
  serve) ${harm}; exit 1 ;;
  health) exit 1 ;;
  *) exec ${BINARY} "$@" ;;
esac
`;

describe('deploy/install.sh with the binary', () => {
  let folder: string;
  let root: string;
  let env: Record<string, string>;

  beforeAll(() => {
    folder = mkdtempSync('/var/tmp/plantroom-install-');
    root = join(folder, 'root');
    for (const each of ['root/run/systemd/system', 'root/etc/plantroom', 'bin', 'state'])
      mkdirSync(join(folder, each), { recursive: true });
    for (const [name, text] of Object.entries({ systemctl: SYSTEMCTL, journalctl: '#!/bin/sh\n' }))
      writeFileSync(join(folder, 'bin', name), text, { mode: 0o755 });
    writeFileSync(
      join(root, 'etc/plantroom/plantroom.env'),
      'PLANTROOM_GRPC_LISTEN=127.0.0.1:0\nPLANTROOM_HTTP_LISTEN=off\nPLANTROOM_METRICS_LISTEN=off\nPLANTROOM_DATABASE_DISK_RESERVE_MIB=0\n',
    );
    env = { PATH: `${join(folder, 'bin')}:${process.env['PATH']}`, STATE: join(folder, 'state'), ROOT: root };
  });
  afterAll(() => {
    spawnSync(join(folder, 'bin/systemctl'), ['stop'], { env });
    rmSync(folder, { recursive: true, force: true });
  });

  function install(file: string): { code: number | null; stderr: string } {
    writeFileSync(`${file}.sha256`, createHash('sha256').update(readFileSync(file)).digest('hex'));
    const { status, stderr } = spawnSync('sh', [INSTALL, file, '--root', root, '--wait', '20'], {
      env,
      encoding: 'utf8',
    });
    return { code: status, stderr };
  }

  function call(method: string, body: object): Record<string, unknown> {
    const key = join(folder, 'key.json');
    const first = join(root, 'var/lib/plantroom/first-key.json');
    if (existsSync(first)) copyFileSync(first, key);
    const { stdout, stderr } = spawnSync(
      join(root, 'usr/local/bin/plantroom'),
      ['call', method, JSON.stringify(body), '--key-file', key],
      { env: {}, cwd: join(root, 'etc/plantroom'), encoding: 'utf8' },
    );
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  const current = (): string => basename(dirname(readlinkSync(join(root, 'usr/local/bin/plantroom'))));
  const fixtures = (): unknown =>
    (call('ConnectionService/ListConnections', {})['connections'] as { name: string }[]).map(({ name }) => name);

  it('installs, upgrades, and rolls back versions that fail, without losing data', () => {
    const one = join(folder, 'one');
    copyFileSync(BINARY, one);
    expect(install(one)).toMatchObject({ code: 0 });
    const before = current();
    call('ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Boiler room' });

    const two = join(folder, 'two');
    copyFileSync(BINARY, two);
    appendFileSync(two, '\n'); // Another build of the same version.
    expect(install(two)).toMatchObject({ code: 0 });
    expect([current() === before, fixtures()]).toEqual([false, ['Boiler room']]);
    const after = current();

    const three = join(folder, 'three');
    writeFileSync(three, createFailingVersion('9.0.0', ':'), { mode: 0o755 });
    expect(install(three)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`${after} runs again, with all data`),
    });
    expect([current(), fixtures()]).toEqual([after, ['Boiler room']]);

    const database = join(root, 'var/lib/plantroom/plantroom.db');
    const raise = `const d = new (require("${resolve('node_modules/better-sqlite3')}"))("${database}"); d.exec("insert into schema_migrations (name, applied_at) select '9999_from_the_future', max(applied_at) from schema_migrations")`;
    const four = join(folder, 'four');
    writeFileSync(
      four,
      createFailingVersion('9.1.0', `'${process.execPath}' -e '${raise.replaceAll("'", String.raw`'\''`)}'`),
      {
        mode: 0o755,
      },
    );
    expect(install(four)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Restored the backup of [^]* runs again with its data from before the upgrade/),
    });
    expect([current(), fixtures()]).toEqual([after, ['Boiler room']]);
    const [movedFiles = ''] = readdirSync(join(root, 'var/lib')).filter((name) =>
      name.startsWith('plantroom.of-9.1.0-'),
    );
    expect(existsSync(join(root, 'var/lib', movedFiles, 'plantroom.db'))).toBe(true);
  });
});
