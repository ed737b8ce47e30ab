// Runs the example programs in a shell and collects their output line by line.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { resolve } from 'node:path';

const MAX_SHOWN_LINES = 40;
const running = new Set();

/** Throws an error with the last lines of a program's output if the condition is false. */
export function assertThat(condition, message, lines = []) {
  if (!condition) throw new Error([message, ...lines.slice(-MAX_SHOWN_LINES)].join('\n'));
}

/**
 * Starts a shell script in a separate process group. `code` resolves to the exit code; `until` resolves when a new line
 * contains the text.
 */
export function startShell(text, { cwd, env, seconds = 120 }) {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const lines = [];
  const waiting = new Set();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      for (const wait of waiting) wait(line);
    });
  }
  const signal = (name) => {
    try {
      process.kill(-Number(child.pid), name);
    } catch (error) {
      if (error.code !== 'ESRCH') throw error; // the process has exited
    }
  };
  const kill = () => signal('SIGKILL');
  const timer = setTimeout(kill, seconds * 1000);
  running.add(kill);
  const code = new Promise((ended) => {
    child.once('close', (exit, by) => {
      clearTimeout(timer);
      running.delete(kill);
      ended(exit ?? by);
    });
  });
  // Only lines after the call count.
  const until = (wanted, times = 1) =>
    new Promise((found, failed) => {
      let left = times;
      const wait = (line) => {
        if (line.includes(wanted)) left -= 1;
        if (left === 0 && waiting.delete(wait)) found(line);
      };
      waiting.add(wait);
      void code.then((ended) =>
        failed(
          new Error(
            [
              `the program exited with ${ended} before it printed "${wanted}": ${text}`,
              ...lines.slice(-MAX_SHOWN_LINES),
            ].join('\n'),
          ),
        ),
      );
    });
  return { lines, code, until, signal };
}

/** Runs a shell script and returns its output lines. Throws if its exit code is not 0. */
export async function runShell(text, options) {
  const program = startShell(text, options);
  const code = await program.code;
  assertThat(code === 0, `this script exited with code ${code}:\n${text}`, program.lines);
  return program.lines;
}

/** Kills all programs that are still running. */
export function stopAll() {
  for (const kill of running) kill();
}

/** Defines `plantroom` as a shell function. */
export const PLANTROOM = `plantroom() { ${JSON.stringify(process.execPath)} ${JSON.stringify(resolve('dist/main.js'))} "$@"; }\n`;
