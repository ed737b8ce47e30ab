// The programs of others, as a shell starts them: what they write is kept line by line.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { resolve } from 'node:path';

const KEPT_LINES = 40;
const running = new Set();

/** Ends with the reason and what a program wrote last. */
export function must(isTrue, what, lines = []) {
  if (!isTrue) throw new Error([what, ...lines.slice(-KEPT_LINES)].join('\n'));
}

/** Starts the lines of a shell in a process group of its own. `code` resolves when it has ended; `until` when a new line holds the text. */
export function startShell(text, { cwd, env, seconds = 120 }) {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
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
      if (error.code !== 'ESRCH') throw error; // it has ended
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
  // Counted from the call on, so that what was said before does not answer.
  const until = (wanted, times = 1) =>
    new Promise((found, failed) => {
      let left = times;
      const wait = (line) => {
        if (line.includes(wanted)) left -= 1;
        if (left === 0 && waiting.delete(wait)) found(line);
      };
      waiting.add(wait);
      void code.then((ended) => failed(new Error([`it ended with ${ended} before it said ${wanted}: ${text}`, ...lines.slice(-KEPT_LINES)].join('\n'))));
    });
  return { lines, code, until, signal };
}

/** Runs the lines of a shell to their end; what it wrote. Throws if it does not end with 0. */
export async function shell(text, options) {
  const program = startShell(text, options);
  const code = await program.code;
  must(code === 0, `this ended with ${code}:\n${text}`, program.lines);
  return program.lines;
}

/** Ends what is still running. */
export function endAll() {
  for (const kill of running) kill();
}

/** `plantroom` as a word of the shell. */
export const PLANTROOM = `plantroom() { ${JSON.stringify(process.execPath)} ${JSON.stringify(resolve('dist/main.js'))} "$@"; }\n`;
