import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';

const INSTALL = join(__dirname, '..', '..', 'deploy', 'install.sh');

/**
 * Replaces the binary. It appends its arguments to `$STATE/asked`, and is unhealthy while `$STATE/sick-<version>`
 * exists. It stores its schema in the data folder. With `newSchema`, `serve` upgrades the schema, and the other
 * versions cannot read it any more. If `$STATE/at-<version>-<command>` contains a signal, the whole install process
 * group receives it when that command runs.
 */
const program = (version: string, newSchema = false): string => `#!/bin/sh
echo "${version} $*" >>"$STATE/asked"
at=$STATE/at-${version}-$1
if [ -e "$at" ]; then signal=$(cat "$at"); rm "$at"; kill -"$signal" 0; fi
data=$(sed -n 's/^  dir: \\(.*lib.*\\)$/\\1/p' plantroom.yaml 2>/dev/null)
database=$data/plantroom.db
case $1 in
  version) echo '{"version":"${version}","commit":"x"}' ;;
  config) echo '[{"setting":"data.dir","value":"'"$data"'","source":"x"},{"setting":"database.url","value":"","source":"x"}]' ;;
  migrate | backup) [ ! -e "$STATE/no-$1" ] || { echo "no $1" >&2; exit 1; }
    if [ "$1" = backup ]; then
      file=$(sed -n 's/^  dir: \\(.*backups.*\\)$/\\1/p' plantroom.yaml)/plantroom-2026.tar.zst
      cp "$database" "$file"; echo '{"file":"'"$file"'"}'
    fi ;;
  restore) cp "$2" "$4/plantroom.db" ;;
  serve) [ -e "$database" ] || echo old >"$database"; ${newSchema ? 'echo new >"$database"' : ':'} ;;
  health) [ ! -e "$STATE/sick-${version}" ] && [ -e "$STATE/running" ] && { ${newSchema ? 'true' : '[ "$(cat "$database")" = old ]'}; } ;;
esac
`;

/**
 * Replaces systemctl: starts the program with `serve` in its folder. An unhealthy service is reported as restarting.
 */
const SYSTEMCTL = `#!/bin/sh
echo "systemctl $*" >>"$STATE/asked"
case $1 in
  is-active) [ -e "$STATE/running" ] ;;
  show) if [ -e "$STATE/running" ]; then echo ActiveState=activating; else echo ActiveState=inactive; fi; echo NRestarts=2 ;;
  start | restart) touch "$STATE/running"; cd "$ROOT/etc/plantroom" && "$ROOT/usr/local/bin/plantroom" serve ;;
  stop | disable) rm -f "$STATE/running" ;;
esac
`;

function write(file: string, text: string): void {
  writeFileSync(file, text);
  chmodSync(file, 0o755);
}

describe('deploy/install.sh', () => {
  let folder: string;
  let root: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-install-'));
    root = join(folder, 'root');
    for (const each of [join(root, 'run/systemd/system'), join(root, 'var/lib/plantroom'), join(folder, 'bin'), join(folder, 'state')]) mkdirSync(each, { recursive: true });
    write(join(folder, 'bin/systemctl'), SYSTEMCTL);
    write(join(folder, 'bin/journalctl'), '#!/bin/sh\n');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function release(version: string, newSchema = false): string {
    const file = join(folder, `plantroom-${version}-linux-x64`);
    write(file, program(version, newSchema));
    writeFileSync(`${file}.sha256`, `${createHash('sha256').update(readFileSync(file)).digest('hex')}  ${basename(file)}\n`);
    return file;
  }

  function install(...args: readonly string[]): { code: number | null; stderr: string; calls: string } {
    rmSync(join(folder, 'state/asked'), { force: true });
    const env = { PATH: `${join(folder, 'bin')}:${process.env['PATH']}`, STATE: join(folder, 'state'), ROOT: root };
    const { status, stderr } = spawnSync('setsid', ['sh', '-c', `umask 077; exec sh "$@"`, 'sh', INSTALL, '--root', root, '--wait', '60', ...args], { env, encoding: 'utf8' });
    const callsFile = join(folder, 'state/asked');
    return { code: status, stderr, calls: existsSync(callsFile) ? readFileSync(callsFile, 'utf8') : '' };
  }

  const current = (): string => basename(dirname(readlinkSync(join(root, 'usr/local/bin/plantroom'))));
  const flag = (name: string, text = ''): void => writeFileSync(join(folder, 'state', name), text);
  const running = (): boolean => existsSync(join(folder, 'state/running'));
  const database = (): string => readFileSync(join(root, 'var/lib/plantroom/plantroom.db'), 'utf8');
  const getMode = (path: string): number => statSync(join(root, path)).mode & 0o777;

  it('installs, upgrades after a dry run and a backup of the stopped server, and keeps the data on uninstall', () => {
    expect(install(release('1.0.0'))).toMatchObject({ code: 0, stderr: expect.stringContaining('version 1.0.0 runs') });
    expect(current()).toBe('1.0.0');
    // The umask of root is 077 here. The server runs as another user and must still have access to everything.
    expect(['etc/plantroom/plantroom.yaml', 'opt/plantroom', 'opt/plantroom/1.0.0', 'opt/plantroom/1.0.0/plantroom', 'etc/plantroom', 'var/backups/plantroom'].map(getMode)).toEqual([0o640, 0o755, 0o755, 0o755, 0o755, 0o700]);
    expect(existsSync(join(root, 'etc/systemd/system/plantroom.service'))).toBe(true);
    const upgraded = install(release('1.1.0', true));
    expect(upgraded).toMatchObject({ code: 0, stderr: expect.stringContaining('version 1.1.0 runs') });
    expect(upgraded.calls.match(/1\.1\.0 migrate --dry-run|systemctl stop|1\.0\.0 backup|1\.1\.0 serve|1\.1\.0 health/g)).toEqual(['1.1.0 migrate --dry-run', 'systemctl stop', '1.0.0 backup', '1.1.0 serve', '1.1.0 health']);
    expect(current()).toBe('1.1.0');
    expect(install('--uninstall').code).toBe(0);
    expect([existsSync(join(root, 'opt/plantroom')), existsSync(join(root, 'var/lib/plantroom/plantroom.db')), existsSync(join(root, 'etc/plantroom/plantroom.yaml'))]).toEqual([false, true, true]);
  });

  it.each(['no-migrate', 'no-backup'])('changes nothing and leaves the server running if an upgrade meets %s', (obstacle) => {
    install(release('1.0.0'));
    flag(obstacle);
    expect(install(release('1.1.0'))).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was changed') });
    expect([current(), existsSync(join(folder, 'state/running'))]).toEqual(['1.0.0', true]);
  });

  it('rolls back with the link alone if the previous version can still read the database', () => {
    install(release('1.0.0'));
    flag('sick-1.1.0');
    const back = install(release('1.1.0'));
    expect(back).toMatchObject({ code: 1, stderr: expect.stringContaining('1.0.0 runs again, with all data') });
    expect([current(), back.calls.includes('restore')]).toEqual(['1.0.0', false]);
  });

  it('restores the backup if the previous version cannot read the database any more, also the second time', () => {
    install(release('1.0.0'));
    flag('sick-1.1.0');
    for (const times of [1, 2]) {
      expect(install(release('1.1.0', true))).toMatchObject({ code: 1, stderr: expect.stringContaining('1.0.0 runs again with its data from before the upgrade') });
      const movedFiles = readdirSync(join(root, 'var/lib')).filter((name) => name.startsWith('plantroom.of-1.1.0-'));
      expect([current(), running(), database(), readFileSync(join(root, 'var/lib', movedFiles[0] ?? '', 'plantroom.db'), 'utf8')]).toEqual(['1.0.0', true, 'old\n', 'new\n']);
      // Two copies within one second would have the same name.
      for (const name of movedFiles) renameSync(join(root, 'var/lib', name), join(folder, `${name}-${times}`));
    }
  });

  it.each([
    ['1.0.0-backup', 'TERM', '1.0.0', true],
    ['1.0.0-backup', 'KILL', '1.0.0', false],
    ['1.1.0-health', 'TERM', '1.1.0', true],
    ['1.1.0-health', 'KILL', '1.1.0', true],
  ])('continues an upgrade that was interrupted at %s by SIG%s', (at, signal, version, runs) => {
    install(release('1.0.0'));
    flag(`at-${at}`, signal);
    expect(install(release('1.1.0')).code).not.toBe(0);
    expect([current(), running()]).toEqual([version, runs]);
    expect(install(release('1.1.0'))).toMatchObject({ code: 0, stderr: expect.stringContaining('version 1.1.0 runs') });
    expect([current(), running(), existsSync(join(root, 'opt/plantroom/.upgrade'))]).toEqual(['1.1.0', true, false]);
  });

  it.each(['1.1.0-health', '1.0.0-restore'])('still rolls back after it was killed at %s', (at) => {
    install(release('1.0.0'));
    flag('sick-1.1.0');
    flag(`at-${at}`, 'KILL');
    expect(install(release('1.1.0', true)).code).toBe(null);
    expect(install(release('1.1.0', true))).toMatchObject({ code: 1, stderr: expect.stringContaining('1.0.0 runs again with its data from before the upgrade') });
    expect([current(), running(), database()]).toEqual(['1.0.0', true, 'old\n']);
  });

  it('does not restore the backup of an old interrupted upgrade, because the server may have run since then', () => {
    install(release('1.0.0'));
    flag('sick-1.1.0');
    flag('at-1.1.0-health', 'KILL');
    install(release('1.1.0', true));
    const longAgo = new Date(Date.now() - 2 * 3_600_000);
    utimesSync(join(root, 'opt/plantroom/.upgrade'), longAgo, longAgo);
    expect(install(release('1.1.0', true))).toMatchObject({ code: 1, stderr: expect.stringContaining('restore the backup manually') });
    expect([current(), database()]).toEqual(['1.0.0', 'new\n']);
  });

  it('rolls back in the configured folders', () => {
    for (const each of ['etc/plantroom', 'srv/lib', 'srv/backups']) mkdirSync(join(root, each), { recursive: true });
    writeFileSync(join(root, 'etc/plantroom/plantroom.yaml'), `data:\n  dir: ${root}/srv/lib\nbackup:\n  dir: ${root}/srv/backups\n`);
    install(release('1.0.0'));
    flag('sick-1.1.0');
    expect(install(release('1.1.0', true))).toMatchObject({ code: 1, stderr: expect.stringContaining('1.0.0 runs again with its data from before the upgrade') });
    expect([readFileSync(join(root, 'srv/lib/plantroom.db'), 'utf8'), readdirSync(join(root, 'var/lib'))]).toEqual(['old\n', ['plantroom']]);
  });

  it.each(['file', 'dangling link'])('upgrades with a backup if the link was created manually as a %s', (kind) => {
    install(release('1.0.0'));
    const link = join(root, 'usr/local/bin/plantroom');
    rmSync(kind === 'file' ? link : join(root, 'opt/plantroom/1.0.0'), { recursive: true });
    if (kind === 'file') write(link, program('1.0.1'));
    flag('sick-1.1.0');
    const { stderr, calls } = install(release('1.1.0'));
    expect(calls).toMatch(kind === 'file' ? /1\.1\.0 migrate --dry-run[^]*1\.0\.1 backup/ : /1\.1\.0 migrate --dry-run[^]*1\.1\.0 backup/);
    expect(stderr).toContain(kind === 'file' ? '1.0.1 runs again' : 'there is no previous version to roll back to; backup before the upgrade: ');
    expect(current()).toBe(kind === 'file' ? '1.0.1' : '1.1.0');
  });

  it('keeps the unit unchanged if the upgrade fails, and restores it together with the previous version', () => {
    install(release('1.0.0'));
    const unit = join(root, 'etc/systemd/system/plantroom.service');
    writeFileSync(unit, '# of 1.0.0\n');
    flag('no-migrate');
    install(release('1.1.0'));
    expect(readFileSync(unit, 'utf8')).toBe('# of 1.0.0\n');
    rmSync(join(folder, 'state/no-migrate'));
    flag('sick-1.1.0');
    expect(install(release('1.1.0')).calls).toContain('1.1.0 serve');
    expect(readFileSync(unit, 'utf8')).toBe('# of 1.0.0\n');
  });

  it('leaves the server stopped with --no-start, and leaves a running one alone when the same version is installed again', () => {
    install(release('1.0.0'));
    expect(install(release('1.0.0')).calls).not.toMatch(/systemctl (restart|stop)/);
    expect(install(release('1.1.0'), '--no-start')).toMatchObject({ code: 0, stderr: expect.stringContaining('is stopped') });
    expect([current(), running()]).toEqual(['1.1.0', false]);
  });

  it('passes every variable of plantroom.env to its programs, and extracts the native SQLite module beside the program', () => {
    mkdirSync(join(root, 'etc/plantroom'), { recursive: true });
    // The file has no newline at the end.
    writeFileSync(join(root, 'etc/plantroom/plantroom.env'), 'A=1\nSTATE_OF_LAST=2');
    const engine = join(folder, `linux-${process.arch}`, 'better_sqlite3.node');
    mkdirSync(dirname(engine));
    writeFileSync(engine, 'machine code');
    const file = release('1.0.0');
    writeFileSync(file, readFileSync(file, 'utf8').replace('health) ', 'health) [ "$STATE_OF_LAST" = 2 ] || exit 1; '));
    writeFileSync(`${file}.sha256`, createHash('sha256').update(readFileSync(file)).digest('hex'));
    expect(install(file)).toMatchObject({ code: 0 });
    expect(readFileSync(join(root, 'opt/plantroom/1.0.0/better_sqlite3.node'), 'utf8')).toBe('machine code');
  });

  it('rejects unreadable input and a concurrent installation before it changes anything', () => {
    expect(install(release('1.0.0'), '--wait', '5min')).toMatchObject({ code: 2, stderr: expect.stringContaining('number of seconds') });
    expect(existsSync(join(root, 'opt'))).toBe(false);
    mkdirSync(join(root, 'opt'));
    const beside = spawnSync('flock', [join(root, 'opt'), 'sh', INSTALL, release('1.0.0'), '--root', root], { env: { PATH: process.env['PATH'], STATE: join(folder, 'state'), ROOT: root }, encoding: 'utf8' });
    expect([beside.status, beside.stderr]).toEqual([1, expect.stringContaining('another install.sh is at work')]);
  });

  it('rejects a corrupt file, one without its checksum, and one that does not start', () => {
    const file = release('1.0.0');
    writeFileSync(file, `${readFileSync(file, 'utf8')}# changed\n`);
    expect(install(file)).toMatchObject({ code: 1, stderr: expect.stringContaining('is corrupt') });
    rmSync(`${file}.sha256`);
    expect(install(file)).toMatchObject({ code: 1, stderr: expect.stringContaining('.sha256 does not exist') });
    write(file, '#!/no/such/loader\n');
    writeFileSync(`${file}.sha256`, createHash('sha256').update(readFileSync(file)).digest('hex'));
    expect(install(file)).toMatchObject({ code: 1, stderr: expect.stringContaining('does not start here') });
    expect(existsSync(join(root, 'usr/local/bin/plantroom'))).toBe(false);
  });

  it('reports the skipped steps if systemd is missing', () => {
    rmSync(join(root, 'run'), { recursive: true });
    expect(install(release('1.0.0'))).toMatchObject({ code: 0, stderr: expect.stringMatching(/There is no systemd here, so nothing was started[^]*plantroom serve/), calls: '1.0.0 version --json\n1.0.0 config print --json\n' });
  });
});
