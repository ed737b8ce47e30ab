// A program of an earlier schema, made of the history of this repository, and a site that it kept.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

/** The last commit before device profiles: the program before the last migration. */
export const OLD = { commit: 'c1225f09a744b9c5f6fcb48c1601d5a8325973a0', schema: '0005_people_keys_and_audit' };

/** Whether the history that this checkout has reaches so far. */
export function hasOld() {
  try {
    execFileSync('git', ['cat-file', '-e', `${OLD.commit}^{commit}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** The folder of the old program, built once per commit: with its own sources, and the packages of today, of which it needs nothing that changed since. */
export function oldProgram(cache) {
  const folder = resolve(cache, OLD.commit);
  if (existsSync(join(folder, 'dist/main.js'))) return folder;
  const draft = `${folder}.${process.pid}`;
  try {
    mkdirSync(cache, { recursive: true });
    execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', '.', draft]);
    execFileSync('git', ['-C', draft, 'checkout', '--quiet', OLD.commit], { stdio: 'ignore' });
    symlinkSync(resolve('node_modules'), join(draft, 'node_modules'));
    execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: draft, stdio: ['ignore', 'ignore', 'inherit'] });
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return folder;
}

/**
 * Has the old program keep a site in `folder` (`data`, `key.json`) by its own calls, and be killed by SIGKILL; then asks it `paths`,
 * and what `more` makes of their answers, and kills it again. path -> answer.
 */
export async function oldSite(program, folder, paths, more) {
  mkdirSync(folder, { recursive: true });
  await promisify(execFile)(process.execPath, ['test/fixtures/schemas/make.mjs', program, folder], { timeout: 120_000 });
  const env = { PATH: process.env.PATH, PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_LOG_LEVEL: 'warn' };
  const server = spawn(process.execPath, [join(program, 'dist/main.js'), 'serve'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(server, 'exit');
  try {
    const port = await portOf(server);
    const { apiKey, organizationId } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8'));
    const ask = async (path) => {
      const { stdout } = await promisify(execFile)('curl', ['-sf', '--cacert', join(folder, 'data/tls/ca.pem'), '-H', `X-API-Key: ${apiKey}`, '-H', `X-Organization-Id: ${organizationId}`, `https://localhost:${port}${path}`]);
      return [path, JSON.parse(stdout)];
    };
    const answers = new Map(await Promise.all(paths.map(ask)));
    return new Map([...answers, ...(await Promise.all(more(answers).map(ask)))]);
  } finally {
    server.kill('SIGKILL');
    await ended;
  }
}

async function portOf(server) {
  return await new Promise((done, failed) => {
    let log = '';
    server.stdout.on('data', (chunk) => {
      log += chunk;
      const line = log.split('\n').find((one) => one.includes('"server.ready"') && one.endsWith('}'));
      if (line) done(JSON.parse(line).http.split(':').at(-1));
    });
    server.once('exit', (code) => failed(new Error(`the old server ended with ${code}: ${log}`)));
  });
}
