// Runs one proof with its time limit, in a process group of its own.
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { PROOF_PATH } from './requirements.mjs';

const KILL_DELAY_MS = 10_000;
const running = new Set();

/** Ends the processes of all proofs that are running. */
export function killRunningProofs() {
  for (const pid of running) killGroup(pid, 'SIGKILL');
}

/**
 * Runs a proof and writes its output to a file. Returns its verdict (`passed`, `incomplete` if the output has lines that
 * start with SKIPPED, or `failed`), the reason of a failure, and what was skipped.
 */
export async function runProof({ command, limitMinutes }, outputFile) {
  // The proof writes to the file itself: a pipe stays open as long as any program that the proof left behind.
  const output = openSync(outputFile, 'w');
  const child = spawn('bash', ['-c', command], {
    env: { ...process.env, PATH: PROOF_PATH },
    stdio: ['ignore', output, output],
    detached: true,
  });
  closeSync(output);
  running.add(child.pid);
  const ended = once(child, 'exit');
  const limit = new AbortController();
  const timedOut = pause(limitMinutes * 60_000, 'timeout', { signal: limit.signal }).catch(() => undefined);
  const hasTimedOut = (await Promise.race([ended, timedOut])) === 'timeout';
  limit.abort();
  if (hasTimedOut) killGroup(child.pid, 'SIGTERM');
  if (hasTimedOut) await Promise.race([ended, pause(KILL_DELAY_MS, undefined, { ref: false })]);
  killGroup(child.pid, 'SIGKILL'); // also what it left behind
  const [code, signal] = await ended;
  running.delete(child.pid);
  const skipped = readFileSync(outputFile, 'utf8')
    .split('\n')
    .filter((line) => /\bSKIPPED\b/.test(line));
  if (hasTimedOut) return { verdict: 'failed', reason: `did not end within ${limitMinutes} minutes`, skipped };
  if (code !== 0) return { verdict: 'failed', reason: signal ? `killed by ${signal}` : `exit code ${code}`, skipped };
  return { verdict: skipped.length > 0 ? 'incomplete' : 'passed', skipped };
}

function killGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // No process of the group is left.
  }
}
