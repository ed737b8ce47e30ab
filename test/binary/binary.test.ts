import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createOnePixelPng } from '../media/sampleImages';
import { BINARY, canMount, runCommand, startServer, createSettings, type RunningServer } from './binary';

const ENGINE = 'better_sqlite3.node';
const UNPRIVILEGED_UID = 47_110;

/** Lists the files that a process has open. */
const listOpenFiles = (pid: number): readonly string[] =>
  readdirSync(`/proc/${pid}/fd`).map((descriptor) => readlinkSync(`/proc/${pid}/fd/${descriptor}`));

describe('the single binary', () => {
  let folder: string;
  let binary: string;
  let dataDir: string;
  beforeAll(() => {
    // Not in /tmp: some of the tests mount another file system over it.
    folder = mkdtempSync('/var/tmp/plantroom-binary-');
    chmodSync(folder, 0o755);
    mkdirSync(join(folder, 'bin'));
    binary = join(folder, 'bin', 'plantroom');
    copyFileSync(BINARY, binary);
    dataDir = join(folder, 'data');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const listRuntimes = (): readonly string[] => readdirSync(join(dataDir, '.runtime'));
  const findEngine = (): string => join(dataDir, '.runtime', listRuntimes()[0] as string, ENGINE);

  test('prints its version in an empty environment, ignores NODE_OPTIONS, and does not pass its options to Node', async () => {
    const { code, stdout } = await runCommand([binary, 'version', '--json'], { NODE_OPTIONS: '--require=/nowhere.js' });
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      { form: 'single binary', sqlite: expect.stringMatching(/^3\./), schema: expect.stringMatching(/^\d{4}_/) },
    ]);
    expect(await runCommand([binary, '--inspect'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("unknown option '--inspect'"),
    });
  });

  test('prints its third-party notices, and its bill of materials contains the hash of the binary', async () => {
    const { code, stdout } = await runCommand([binary, 'version', '--notices']);
    const beside = readFileSync(`dist/binary/${process.platform}-${process.arch}/THIRD_PARTY_NOTICES.txt`, 'utf8');
    expect([code, stdout]).toEqual([0, beside]);
    expect(stdout).toMatch(/^ {2}Node\.js 24\.\d+\.\d+ \(MIT\)$/m);
    expect(stdout).toMatch(/^ {2}fastify \d/m);
    const sbom = JSON.parse(readFileSync(`${BINARY}.cdx.json`, 'utf8')) as {
      metadata: { component: { hashes: unknown } };
      components: { name: string; purl: string }[];
    };
    const content = createHash('sha256').update(readFileSync(BINARY)).digest('hex');
    expect(sbom.metadata.component.hashes).toEqual([{ alg: 'SHA-256', content }]);
    expect(sbom.components.find(({ name }) => name === 'Node.js')?.purl).toContain(
      `${process.platform}-${process.arch}`,
    );
    expect(sbom.components.map(({ name }) => name)).toEqual(expect.arrayContaining(['fastify', 'SQLite', 'QuickJS']));
    const [sha256] = readFileSync(`${BINARY}.cdx.json.sha256`, 'utf8').split(' ');
    expect(sha256).toBe(
      createHash('sha256')
        .update(readFileSync(`${BINARY}.cdx.json`))
        .digest('hex'),
    );
  });

  test('executes a command with a custom encoder', async () => {
    const { code, stdout } = await runCommand([binary, 'demo'], { TMPDIR: folder });
    expect([code, stdout]).toEqual([0, expect.stringContaining('The execution finished as converged')]);
    expect(stdout).toContain('Start your own server with: plantroom serve');
  });

  describe('on a data folder', () => {
    let first: RunningServer;
    let created: readonly string[];

    async function create(server: RunningServer, name: string): Promise<string> {
      const body = JSON.stringify({ connectorId: 'gateway', name });
      const answer = await fetch(`${server.base}/api/v2/connections`, {
        method: 'POST',
        headers: { ...first.headers, 'content-type': 'application/json' },
        body,
      });
      return `${answer.status} ${((await answer.json()) as { name?: string }).name}`;
    }

    test('extracts the native SQLite module into a private folder, and checkpoints the log while it serves', async () => {
      first = await startServer([binary, 'serve'], createSettings(dataDir), folder);
      expect(statSync(dirname(findEngine())).mode & 0o777).toBe(0o700);
      // The file is verified and loaded through one descriptor, because the path could name another file by then.
      expect(listOpenFiles(first.pid)).toContain(findEngine());
      const before = statSync(join(dataDir, 'plantroom.db')).mtimeMs;
      created = Array.from({ length: 60 }, (_, index) => `room ${index}`);
      for (const name of created) expect(await create(first, name)).toBe(`200 ${name}`);
      while (statSync(join(dataDir, 'plantroom.db')).mtimeMs === before)
        await new Promise((resolve) => setImmediate(resolve)); // The writer itself never runs a checkpoint.
      expect(first.log()).not.toContain('checkpoint');
    });

    test('processes images', async () => {
      const answer = await fetch(`${first.base}/api/v2/media?filename=dot.png`, {
        method: 'POST',
        headers: { ...first.headers, 'content-type': 'image/png' },
        body: new Uint8Array(createOnePixelPng(7)),
      });
      expect([answer.status, await answer.json()]).toMatchObject([201, { contentType: 'image/png', width: 1 }]);
    });

    test('serves its pages and its API document', async () => {
      for (const path of ['/docs/', '/docs/swagger-ui-bundle.js', '/openapi.json', '/openapi-grpc.json'])
        expect([path, (await fetch(first.base + path)).status]).toEqual([path, 200]);
    });

    test('survives kill -9, replaces a native module that was modified, and removes those of earlier versions', async () => {
      await first.end('SIGKILL');
      const code = readFileSync(findEngine());
      chmodSync(findEngine(), 0o700);
      writeFileSync(findEngine(), Buffer.concat([code.subarray(0, -1), Buffer.from([(code.at(-1) ?? 0) ^ 1])]));
      chmodSync(dirname(findEngine()), 0o777);
      const [current] = listRuntimes();
      mkdirSync(join(dataDir, '.runtime', '0'.repeat(64)));
      writeFileSync(join(dataDir, '.runtime', '0'.repeat(64), ENGINE), 'of an earlier version');
      const second = await startServer([binary, 'serve'], createSettings(dataDir));
      expect(listRuntimes()).toEqual([current]);
      expect(readFileSync(findEngine()).equals(code)).toBe(true);
      expect(statSync(dirname(findEngine())).mode & 0o777).toBe(0o700);
      const answer = await fetch(`${second.base}/api/v2/connections?pageSize=200`, { headers: first.headers });
      const { connections } = (await answer.json()) as { connections: { name: string }[] };
      expect(connections.map(({ name }) => name)).toEqual(expect.arrayContaining([...created]));
      await second.end('SIGTERM');
    });

    test('serves data of another version and vice versa, each with its own native SQLite module', async () => {
      const other = join(folder, 'bin', 'plantroom-other');
      writeFileSync(other, buildOtherVersion(), { mode: 0o755 });
      const used: string[] = [];
      for (const program of [other, binary]) {
        const server = await startServer([program, 'serve'], createSettings(dataDir));
        created = [...created, `by ${basename(program)}`];
        expect(await create(server, created.at(-1) as string)).toMatch(/^200 /);
        const answer = await fetch(`${server.base}/api/v2/connections?pageSize=200`, { headers: first.headers });
        const { connections } = (await answer.json()) as { connections: { name: string }[] };
        expect(connections.map(({ name }) => name)).toEqual(expect.arrayContaining([...created]));
        used.push(...listRuntimes());
        await server.end('SIGTERM');
      }
      expect(new Set(used).size).toBe(2); // Each version uses its own module and removes the other one.
      expect(used).toHaveLength(2);
    });
  });

  // Describes what the test needs of the system, because it is skipped in a container that may not mount.
  const testWithMounts = canMount ? test : test.skip;

  testWithMounts('serves as any user on a read-only root, with /tmp mounted noexec', async () => {
    const own = join(folder, 'own');
    mkdirSync(own);
    chownSync(own, UNPRIVILEGED_UID, UNPRIVILEGED_UID);
    const server = await startServer(
      [
        ...wrapWithMounts(
          `mount --bind ${own} ${own}; mount -t tmpfs -o noexec tmpfs /tmp; mount -o remount,bind,ro /`,
        ),
        binary,
        'serve',
      ],
      createSettings(join(own, 'data')),
      '/proc',
    );
    expect((await fetch(`${server.base}/healthz`)).status).toBe(200);
    expect(statSync(join(own, 'data', '.runtime')).uid).toBe(UNPRIVILEGED_UID);
    await server.end('SIGTERM');
  });

  testWithMounts(
    'explains how to proceed if the data folder is mounted noexec, and serves there with the native module beside the binary',
    async () => {
      const own = join(folder, 'noexec');
      mkdirSync(own);
      const command = [...wrapWithMounts(`mount -t tmpfs -o noexec,mode=0777 tmpfs ${own}`), binary, 'serve'];
      const refused = await runCommand(command, createSettings(join(own, 'data')));
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringMatching(
          /does not allow programs to run\. Mount it without noexec, or put better_sqlite3\.node .* next to the program/,
        ),
      ]);
      copyFileSync(`dist/binary/${process.platform}-${process.arch}/${ENGINE}`, join(dirname(binary), ENGINE));
      const server = await startServer(command, createSettings(join(own, 'data')));
      await server.end('SIGTERM');
      rmSync(join(dirname(binary), ENGINE));
      // The data folder was on a file system that only that process could see.
      expect(existsSync(join(own, 'data'))).toBe(false);
    },
  );
});

/** Returns the command that runs another command as an unprivileged user with private mounts. */
function wrapWithMounts(mounts: string): readonly string[] {
  const script = `set -e; mount --make-rprivate /; ${mounts}; exec setpriv --reuid ${UNPRIVILEGED_UID} --regid ${UNPRIVILEGED_UID} --clear-groups "$@"`;
  return ['/usr/bin/unshare', '-m', '/bin/sh', '-c', script, 'sh'];
}

/** Returns the binary with a different native SQLite module: its compiler name is changed. */
function buildOtherVersion(): Buffer {
  const bytes = readFileSync(BINARY);
  const code = readFileSync(`dist/binary/${process.platform}-${process.arch}/${ENGINE}`);
  const at = bytes.indexOf(code);
  bytes.write('gcc', at + code.indexOf('GCC: ('));
  return bytes;
}
