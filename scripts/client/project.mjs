// Creates projects like those of users: an empty folder outside this repository, with packages installed by npm.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const TSC = resolve('node_modules/typescript/bin/tsc');
const execute = promisify(execFile);

/** Finds another supported Node.js version on this machine; undefined if there is none. */
export async function findOtherNode() {
  const ownFolder = dirname(process.execPath);
  const folders = process.env.PATH.split(delimiter).filter(
    (folder) => resolve(folder) !== ownFolder && !folder.includes('node_modules'),
  );
  const found = await Promise.all(
    folders.map((folder) =>
      execute(join(folder, 'node'), ['--version']).then(
        ({ stdout }) => ({ node: join(folder, 'node'), version: stdout.trim() }),
        () => undefined,
      ),
    ),
  );
  return found.find(
    (one) => one && one.version !== process.version && Number(one.version.slice(1).split('.')[0]) >= 20,
  );
}

/** Creates a project with these files (name -> text) and installs packages in it. */
export async function createProject(folder, { files = {}, from, packages }) {
  mkdirSync(folder, { recursive: true });
  if (from) cpSync(from, folder, { recursive: true });
  for (const [name, text] of Object.entries({
    ...(from ? {} : { 'package.json': '{ "private": true }\n' }),
    ...files,
  })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const args = [
    'install',
    ...packages,
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    '--prefer-offline',
    '--omit=dev',
    '--loglevel=error',
  ];
  await execute('npm', args, { cwd: folder, shell: process.platform === 'win32' });
  return {
    folder,
    installed: Object.keys(
      JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8')).packages,
    ).map((path) => path.replace('node_modules/', '')),
    require: createRequire(join(folder, 'package.json')),
  };
}

/** Compiles a TypeScript project with the compiler of this repository. Throws its errors. */
export async function compile(folder, config = 'tsconfig.json') {
  await execute(process.execPath, [TSC, '-p', join(folder, config)]).catch(({ stdout }) => {
    throw new Error(`${join(folder, config)} does not compile:\n${stdout}`);
  });
}

/** Runs a program and returns its output. Throws if its exit code is not 0. */
export async function run(node, args, { cwd, env = {} }) {
  return await execute(node, args, { cwd, env: { ...process.env, ...env }, timeout: 60_000, maxBuffer: 1e8 }).then(
    ({ stdout }) => stdout,
    ({ code, signal, stdout, stderr }) => {
      throw new Error(`${args.join(' ')} exited with ${signal ?? code}:\n${stdout}${stderr}`);
    },
  );
}

/**
 * Starts a program that runs until it is stopped. `until(text)` resolves when a line contains the text; `stop()` sends SIGTERM
 * and resolves to the exit code.
 */
export function start(node, args, { cwd, env = {} }) {
  const child = spawn(node, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  const lines = [];
  const waiting = [];
  const readLine = (line) => {
    lines.push(line);
    for (const wait of waiting) wait(line);
  };
  createInterface({ input: child.stdout }).on('line', readLine);
  createInterface({ input: child.stderr }).on('line', readLine);
  const until = (text) =>
    new Promise((found, failed) => {
      const wait = (line) => line.includes(text) && found(line);
      waiting.push(wait);
      lines.forEach(wait);
      const fail = (why) =>
        failed(new Error(`${args[0]} ${why} before it printed "${text}":\n${lines.slice(-40).join('\n')}`));
      void ended.then(() => fail('exited'));
      setTimeout(fail, 60_000, 'did not respond for 60 s').unref();
    });
  const stop = async () => {
    child.kill('SIGTERM');
    const [code, signal] = await ended;
    return signal ?? code;
  };
  return { until, stop, lines };
}
