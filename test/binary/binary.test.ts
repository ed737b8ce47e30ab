import { chmodSync, copyFileSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { onePixel } from '../media/pictures';
import { BINARY, canMount, ran, served, settings, type Served } from './binary';

const ENGINE = 'better_sqlite3.node';
const NOBODY = 47_110;

/** The files that a process has open. */
const opened = (pid: number): readonly string[] => readdirSync(`/proc/${pid}/fd`).map((descriptor) => readlinkSync(`/proc/${pid}/fd/${descriptor}`));

describe('the single binary', () => {
  let folder: string;
  let binary: string;
  let dataDir: string;
  beforeAll(() => {
    folder = mkdtempSync('/var/tmp/plantroom-binary-'); // not /tmp: some of the tests put another one over it
    chmodSync(folder, 0o755);
    mkdirSync(join(folder, 'bin'));
    binary = join(folder, 'bin', 'plantroom');
    copyFileSync(BINARY, binary);
    dataDir = join(folder, 'data');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const runtimes = (): readonly string[] => readdirSync(join(dataDir, '.runtime'));
  const laid = (): string => join(dataDir, '.runtime', runtimes()[0] as string, ENGINE);

  test('says what it is in an empty environment, whatever NODE_OPTIONS says, and takes the options of Node for its own', async () => {
    const { code, stdout } = await ran([binary, 'version', '--json'], { NODE_OPTIONS: '--require=/nowhere.js' });
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { form: 'single binary', sqlite: expect.stringMatching(/^3\./), schema: expect.stringMatching(/^\d{4}_/) }]);
    expect(await ran([binary, '--inspect'])).toMatchObject({ code: 2, stderr: expect.stringContaining("unknown option '--inspect'") });
  });

  test('executes a command with an encoder of its own', async () => {
    const { code, stdout } = await ran([binary, 'demo'], { TMPDIR: folder });
    expect([code, stdout]).toEqual([0, expect.stringContaining('The execution ended as converged')]);
    expect(stdout).toContain('Start your own: plantroom serve');
  });

  describe('on a data folder', () => {
    let first: Served;
    let made: readonly string[];

    async function create(server: Served, name: string): Promise<string> {
      const body = JSON.stringify({ connectorId: 'gateway', name });
      const answer = await fetch(`${server.base}/api/v2/connections`, { method: 'POST', headers: { ...first.headers, 'content-type': 'application/json' }, body });
      return `${answer.status} ${((await answer.json()) as { name?: string }).name}`;
    }

    test('lays the machine code of SQLite where only its user comes, and folds the log while it serves', async () => {
      first = await served([binary, 'serve'], settings(dataDir), folder);
      expect(statSync(dirname(laid())).mode & 0o777).toBe(0o700);
      expect(opened(first.pid)).toContain(laid()); // looked at and loaded by one descriptor: a path could mean another file by then
      const before = statSync(join(dataDir, 'plantroom.db')).mtimeMs;
      made = Array.from({ length: 60 }, (_, index) => `room ${index}`);
      for (const name of made) expect(await create(first, name)).toBe(`200 ${name}`);
      while (statSync(join(dataDir, 'plantroom.db')).mtimeMs === before) await new Promise((resolve) => setImmediate(resolve)); // the writer itself never folds
      expect(first.log()).not.toContain('checkpoint');
    });

    test('looks at pictures', async () => {
      const answer = await fetch(`${first.base}/api/v2/media?filename=dot.png`, { method: 'POST', headers: { ...first.headers, 'content-type': 'image/png' }, body: new Uint8Array(onePixel(7)) });
      expect([answer.status, await answer.json()]).toMatchObject([201, { contentType: 'image/png', width: 1 }]);
    });

    test('shows its pages and its document', async () => {
      for (const path of ['/docs/', '/docs/swagger-ui-bundle.js', '/openapi.json']) expect([path, (await fetch(first.base + path)).status]).toEqual([path, 200]);
    });

    test('is whole after kill -9, replaces machine code that was tampered with, and removes that of earlier versions', async () => {
      await first.end('SIGKILL');
      const code = readFileSync(laid());
      chmodSync(laid(), 0o700);
      writeFileSync(laid(), Buffer.concat([code.subarray(0, -1), Buffer.from([(code.at(-1) ?? 0) ^ 1])]));
      chmodSync(dirname(laid()), 0o777);
      const [current] = runtimes();
      mkdirSync(join(dataDir, '.runtime', '0'.repeat(64)));
      writeFileSync(join(dataDir, '.runtime', '0'.repeat(64), ENGINE), 'of an earlier version');
      const second = await served([binary, 'serve'], settings(dataDir));
      expect(runtimes()).toEqual([current]);
      expect(readFileSync(laid()).equals(code)).toBe(true);
      expect(statSync(dirname(laid())).mode & 0o777).toBe(0o700);
      const answer = await fetch(`${second.base}/api/v2/connections?pageSize=200`, { headers: first.headers });
      const { connections } = (await answer.json()) as { connections: { name: string }[] };
      expect(connections.map(({ name }) => name)).toEqual(expect.arrayContaining([...made]));
      await second.end('SIGTERM');
    });

    test('serves what another version stored, and the other way round, each with its own machine code of SQLite', async () => {
      const other = join(folder, 'bin', 'plantroom-other');
      writeFileSync(other, otherVersion(), { mode: 0o755 });
      const used: string[] = [];
      for (const program of [other, binary]) {
        const server = await served([program, 'serve'], settings(dataDir));
        made = [...made, `by ${basename(program)}`];
        expect(await create(server, made.at(-1) as string)).toMatch(/^200 /);
        const answer = await fetch(`${server.base}/api/v2/connections?pageSize=200`, { headers: first.headers });
        const { connections } = (await answer.json()) as { connections: { name: string }[] };
        expect(connections.map(({ name }) => name)).toEqual(expect.arrayContaining([...made]));
        used.push(...runtimes());
        await server.end('SIGTERM');
      }
      expect(new Set(used).size).toBe(2); // one each: that of the other is removed
      expect(used).toHaveLength(2);
    });
  });

  // What it needs of the system is said here, for it skips in a container that may not mount.
  const whereMounts = canMount ? test : test.skip;

  whereMounts('serves as any user on a root that is read-only, with /tmp mounted noexec', async () => {
    const own = join(folder, 'own');
    mkdirSync(own);
    chownSync(own, NOBODY, NOBODY);
    const server = await served([...underMounts(`mount --bind ${own} ${own}; mount -t tmpfs -o noexec tmpfs /tmp; mount -o remount,bind,ro /`), binary, 'serve'], settings(join(own, 'data')), '/proc');
    expect((await fetch(`${server.base}/healthz`)).status).toBe(200);
    expect(statSync(join(own, 'data', '.runtime')).uid).toBe(NOBODY);
    await server.end('SIGTERM');
  });

  whereMounts('says what to do where the data folder lets no program run, and serves there with the machine code beside it', async () => {
    const own = join(folder, 'noexec');
    mkdirSync(own);
    const command = [...underMounts(`mount -t tmpfs -o noexec,mode=0777 tmpfs ${own}`), binary, 'serve'];
    const refused = await ran(command, settings(join(own, 'data')));
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/lets no program run; mount it without noexec, or put better_sqlite3\.node .* beside the program/)]);
    copyFileSync(`dist/binary/${process.platform}-${process.arch}/${ENGINE}`, join(dirname(binary), ENGINE));
    const server = await served(command, settings(join(own, 'data')));
    await server.end('SIGTERM');
    rmSync(join(dirname(binary), ENGINE));
    expect(existsSync(join(own, 'data'))).toBe(false); // it was on the file system of that process alone
  });
});

/** What runs a command as a user without rights, with mounts of its own. */
function underMounts(mounts: string): readonly string[] {
  const script = `set -e; mount --make-rprivate /; ${mounts}; exec setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups "$@"`;
  return ['/usr/bin/unshare', '-m', '/bin/sh', '-c', script, 'sh'];
}

/** The binary with other machine code of SQLite: the name of the compiler in it is another. */
function otherVersion(): Buffer {
  const bytes = readFileSync(BINARY);
  const code = readFileSync(`dist/binary/${process.platform}-${process.arch}/${ENGINE}`);
  const at = bytes.indexOf(code);
  bytes.write('gcc', at + code.indexOf('GCC: ('));
  return bytes;
}
