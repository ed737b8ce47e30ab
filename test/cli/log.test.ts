import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
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

it('keeps no more than 8 MiB for a reader who does not read, and says how many lines it dropped when he reads again', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-log-'));
  const outfile = join(folder, 'program.js');
  buildSync({ stdin: { contents: PROGRAM, loader: 'ts', resolveDir: process.cwd() }, bundle: true, platform: 'node', format: 'cjs', outfile, logLevel: 'silent' });
  const child = spawn(process.execPath, [outfile], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    let bytes = 0;
    let read = 0;
    let dropped: unknown;
    for await (const line of createInterface({ input: child.stdout })) {
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
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
});
