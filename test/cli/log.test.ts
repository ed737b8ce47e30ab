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
// Writes faster than any reader can read: about 20 MB before the event loop continues.
const PROGRAM = `
import { createProcessLog } from './src/cli/log';
const { log } = createProcessLog({ level: 'info', format: 'auto' });
for (let n = 0; n < ${LINES}; n += 1) log.info({ n, padding: 'x'.repeat(270) }, 'test.line');
setInterval(() => {}, 1000);
`;

/** Starts a TypeScript program in its own process. `stdout` has the same meaning as for spawn. */
function start(source: string, stdout: 'pipe' | number): { child: ChildProcess; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-log-'));
  const outfile = join(folder, 'program.js');
  buildSync({
    stdin: { contents: source, loader: 'ts', resolveDir: process.cwd() },
    bundle: true,
    platform: 'node',
    format: 'cjs',
    outfile,
    logLevel: 'silent',
  });
  const child = spawn(process.execPath, [outfile], { stdio: ['ignore', stdout, 'pipe'] });
  const remove = (): void => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  return { child, remove };
}

const ENDS = `
import { createProcessLog } from './src/cli/log';
const { log, flush } = createProcessLog({ level: 'info', format: 'auto' });
for (let n = 0; n < 2000; n += 1) log.info({ n, padding: 'x'.repeat(270) }, 'test.line');
log.error({}, 'test.last');
setTimeout(() => {
  process.stderr.write('lives');
  log.warn({}, 'test.more');
  flush();
  process.exit(3);
}, 300);
`;

it.each(['a full disk', 'a blocked reader'])(
  'keeps the process alive before %s, and does not delay its exit',
  async (where) => {
    const full = where.includes('full') ? openSync('/dev/full', 'w') : undefined;
    const { child, remove } = start(ENDS, full ?? 'pipe');
    try {
      const [output, [code]] = await Promise.all([text(child.stderr as NodeJS.ReadableStream), once(child, 'exit')]);
      expect({ code, output }).toEqual({ code: 3, output: 'lives' });
    } finally {
      remove();
      if (full !== undefined) closeSync(full);
    }
  },
);

it('buffers at most 8 MiB for a blocked reader, and reports the number of dropped lines when reading resumes', async () => {
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
      if (fields['n'] === LINES - 1) break; // No line was dropped.
    }
    expect(dropped).toBe(LINES - read);
    expect(bytes).toBeLessThanOrEqual(LIMIT);
  } finally {
    remove();
  }
});
