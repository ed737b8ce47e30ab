// Builds an older version of the program from the history of this repository, and data that it created.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

/** The last commit before device profiles, and its database schema. */
export const OLD = { commit: 'c1225f09a744b9c5f6fcb48c1601d5a8325973a0', schema: '0005_people_keys_and_audit' };

/** Whether this checkout contains that commit. */
export function hasOldCommit() {
  try {
    execFileSync('git', ['cat-file', '-e', `${OLD.commit}^{commit}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Builds the old program once per commit and returns its folder. It uses its own sources and today's packages, which have
 * not changed in a way that matters to it.
 */
export function buildOldProgram(cache) {
  const folder = resolve(cache, OLD.commit);
  if (existsSync(join(folder, 'dist/main.js'))) return folder;
  const tempFolder = `${folder}.${process.pid}`;
  try {
    mkdirSync(cache, { recursive: true });
    execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', '.', tempFolder]);
    execFileSync('git', ['-C', tempFolder, 'checkout', '--quiet', OLD.commit], { stdio: 'ignore' });
    symlinkSync(resolve('node_modules'), join(tempFolder, 'node_modules'));
    execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: tempFolder, stdio: ['ignore', 'ignore', 'inherit'] });
    renameSync(tempFolder, folder);
  } finally {
    rmSync(tempFolder, { recursive: true, force: true });
  }
  return folder;
}

/**
 * Lets the old program create data in `folder` (`data`, `key.json`) and kills it with SIGKILL. Then starts it again, requests
 * `paths` and the further paths that `more` derives from the responses, and kills it again. Returns path -> response.
 */
export async function createOldSite(program, folder, paths, more) {
  mkdirSync(folder, { recursive: true });
  await promisify(execFile)(process.execPath, ['test/fixtures/schemas/make.mjs', program, folder], {
    timeout: 120_000,
  });
  const env = {
    PATH: process.env.PATH,
    PLANTROOM_DATA_DIR: join(folder, 'data'),
    PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_LOG_LEVEL: 'warn',
  };
  const server = spawn(process.execPath, [join(program, 'dist/main.js'), 'serve'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(server, 'exit');
  try {
    const port = await getPort(server);
    const { apiKey, organizationId } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8'));
    const get = async (path) => {
      const { stdout } = await promisify(execFile)('curl', [
        '-sf',
        '--cacert',
        join(folder, 'data/tls/ca.pem'),
        '-H',
        `X-API-Key: ${apiKey}`,
        '-H',
        `X-Organization-Id: ${organizationId}`,
        `https://localhost:${port}${path}`,
      ]);
      return [path, JSON.parse(stdout)];
    };
    const responses = new Map(await Promise.all(paths.map(get)));
    return new Map([...responses, ...(await Promise.all(more(responses).map(get)))]);
  } finally {
    server.kill('SIGKILL');
    await ended;
  }
}

async function getPort(server) {
  return await new Promise((done, failed) => {
    let log = '';
    server.stdout.on('data', (chunk) => {
      log += chunk;
      const line = log.split('\n').find((one) => one.includes('"server.ready"') && one.endsWith('}'));
      if (line) done(JSON.parse(line).http.split(':').at(-1));
    });
    server.once('exit', (code) => failed(new Error(`the old server exited with code ${code}: ${log}`)));
  });
}
