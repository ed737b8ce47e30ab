// Projects of somebody else: an empty folder outside of this repository, the package installed in it by npm.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const TSC = resolve('node_modules/typescript/bin/tsc');
const execute = promisify(execFile);

/** The oldest Node that is on this machine beside the one of the repository, if the package supports it. */
export async function otherNode() {
  const mine = dirname(process.execPath);
  const folders = process.env.PATH.split(delimiter).filter((folder) => resolve(folder) !== mine && !folder.includes('node_modules'));
  const found = await Promise.all(folders.map((folder) => execute(join(folder, 'node'), ['--version']).then(({ stdout }) => ({ node: join(folder, 'node'), version: stdout.trim() }), () => undefined)));
  return found.find((one) => one && one.version !== process.version && Number(one.version.slice(1).split('.')[0]) >= 20);
}

/** Makes a project with these files (name -> text) and installs packages in it, as npm does for everybody. */
export async function makeProject(folder, { files = {}, from, packages }) {
  mkdirSync(folder, { recursive: true });
  if (from) cpSync(from, folder, { recursive: true });
  for (const [name, text] of Object.entries({ ...(from ? {} : { 'package.json': '{ "private": true }\n' }), ...files })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const args = ['install', ...packages, '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--omit=dev', '--loglevel=error'];
  await execute('npm', args, { cwd: folder, shell: process.platform === 'win32' });
  return { folder, installed: Object.keys(JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8')).packages).map((path) => path.replace('node_modules/', '')), require: createRequire(join(folder, 'package.json')) };
}

/** Compiles a project of TypeScript with the compiler of this repository; what it complains of is thrown. */
export async function compile(folder, config = 'tsconfig.json') {
  await execute(process.execPath, [TSC, '-p', join(folder, config)]).catch(({ stdout }) => {
    throw new Error(`${join(folder, config)} does not compile:\n${stdout}`);
  });
}

/** Runs a program to its end; gives what it wrote. Throws when it ends with anything but 0. */
export async function run(node, args, { cwd, env = {} }) {
  return await execute(node, args, { cwd, env: { ...process.env, ...env }, timeout: 60_000, maxBuffer: 1e8 }).then(
    ({ stdout }) => stdout,
    ({ code, signal, stdout, stderr }) => {
      throw new Error(`${args.join(' ')} ended with ${signal ?? code}:\n${stdout}${stderr}`);
    },
  );
}

/** Starts a program that runs until it is stopped. `until(text)` resolves when a line of it holds the text; `stop()` ends it by SIGTERM and gives its exit code. */
export function start(node, args, { cwd, env = {} }) {
  const child = spawn(node, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  const lines = [];
  const waiting = [];
  const look = (line) => {
    lines.push(line);
    for (const wait of waiting) wait(line);
  };
  createInterface({ input: child.stdout }).on('line', look);
  createInterface({ input: child.stderr }).on('line', look);
  const until = (text) =>
    new Promise((found, failed) => {
      const wait = (line) => line.includes(text) && found(line);
      waiting.push(wait);
      lines.forEach(wait);
      const give = (why) => failed(new Error(`${args[0]} ${why} before it said ${text}:\n${lines.slice(-40).join('\n')}`));
      void ended.then(() => give('ended'));
      setTimeout(give, 60_000, 'did nothing for 60 s').unref();
    });
  const stop = async () => {
    child.kill('SIGTERM');
    const [code, signal] = await ended;
    return signal ?? code;
  };
  return { until, stop, lines };
}
