import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { buildSync } from 'esbuild';

const LINES = 60_000;
const LIMIT = 8 * 1024 * 1024;
// Faster than anybody can read: about 20 MB before the event loop turns.
const PROGRAM = `
import { processLog } from './src/cli/log';
const { log } = processLog('info');
for (let n = 0; n < ${LINES}; n += 1) log.info({ n, padding: 'x'.repeat(270) }, 'test.line');
setInterval(() => {}, 1000);
`;

/** A program in TypeScript as a process of its own; `stdout` as for spawn. */
function start(source: string, stdout: 'pipe' | number): { child: ChildProcess; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-log-'));
  const outfile = join(folder, 'program.js');
  buildSync({ stdin: { contents: source, loader: 'ts', resolveDir: process.cwd() }, bundle: true, platform: 'node', format: 'cjs', outfile, logLevel: 'silent' });
  const child = spawn(process.execPath, [outfile], { stdio: ['ignore', stdout, 'pipe'] });
  const remove = (): void => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  return { child, remove };
}

const ENDS = `
import { processLog } from './src/cli/log';
const { log, flush } = processLog('info');
for (let n = 0; n < 2000; n += 1) log.info({ n, padding: 'x'.repeat(270) }, 'test.line');
log.error({}, 'test.last');
setTimeout(() => {
  process.stderr.write('lives');
  log.warn({}, 'test.more');
  flush();
  process.exit(3);
}, 300);
`;

it.each(['a disk that is full', 'a reader who does not read'])('keeps the process alive before %s, and does not hold up its end', async (where) => {
  const full = where.includes('full') ? openSync('/dev/full', 'w') : undefined;
  const { child, remove } = start(ENDS, full ?? 'pipe');
  try {
    const [said, [code]] = await Promise.all([text(child.stderr as NodeJS.ReadableStream), once(child, 'exit')]);
    expect({ code, said }).toEqual({ code: 3, said: 'lives' });
  } finally {
    remove();
    if (full !== undefined) closeSync(full);
  }
});

it('keeps no more than 8 MiB for a reader who does not read, and says how many lines it dropped when he reads again', async () => {
  const { child, remove } = start(PROGRAM, 'pipe');
  try {
    let bytes = 0;
    let read = 0;
    let dropped: unknown;
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      const fields = JSON.parse(line) as Record<string, unknown>;
      if (fields['event'] === 'log.lines_dropped') dropped = fields['count'];
      if (dropped !== undefined) break;
      read += 1;
      bytes += line.length + 1;
      if (fields['n'] === LINES - 1) break; // nothing was dropped
    }
    expect(dropped).toBe(LINES - read);
    expect(bytes).toBeLessThanOrEqual(LIMIT);
  } finally {
    remove();
  }
});
