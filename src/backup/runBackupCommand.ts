import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** The command that makes a backup and reports it as one JSON value on stdout: `plantroom backup --rotate --json`. */
export interface BackupCommand {
  readonly file: string;
  readonly args: readonly string[];
  /**
   * The complete environment of the command: its settings and its secrets, which do not appear in the process list this
   * way.
   */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The outcome of the command. */
interface BackupOutcome {
  /** What it reported on stdout; undefined: it failed. */
  readonly report:
    | {
        readonly file: string;
        readonly bytes: number;
        readonly removed: readonly string[];
        readonly warnings: readonly string[];
      }
    | undefined;
  /** Its error message. */
  readonly error: string;
}

const MAX_TEXT_LENGTH = 64 * 1024;
/** The time limit to stop and clean up, in milliseconds. */
const TERMINATION_TIMEOUT_MS = 1000;
/** How long to wait for the exit of a killed process: it may hang on a disk. */
const KILL_TIMEOUT_MS = 5000;

/**
 * Runs the command to its end. It is terminated when the signal aborts, and killed if it does not stop. Never rejects.
 */
export async function runBackupCommand(
  { file, args, env }: BackupCommand,
  signal: AbortSignal,
): Promise<BackupOutcome> {
  const child = spawn(file, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const { promise: stuck, reject: giveUp } = Promise.withResolvers<never>();
  stuck.catch(() => {}); // otherwise unhandled if the command has exited before
  const terminate = (): void =>
    terminateChild(child, () =>
      giveUp(new Error('the command could not be terminated; it may wait for a disk that does not respond')),
    );
  signal.addEventListener('abort', terminate, { once: true });
  if (signal.aborted) terminate();
  const readStdout = collectText(child.stdout);
  const readStderr = collectText(child.stderr);
  try {
    const [code] = (await Promise.race([once(child, 'close'), stuck])) as [number | null];
    const error = readStderr()
      .trim()
      .replace(/^plantroom: /, '');
    return code === 0
      ? { report: JSON.parse(readStdout()) as BackupOutcome['report'], error }
      : { report: undefined, error: error || `the command exited with ${String(code ?? child.signalCode)}` };
  } catch (error) {
    return { report: undefined, error: (error as Error).message };
  } finally {
    signal.removeEventListener('abort', terminate);
  }
}

/**
 * Asks the process to stop, kills it after TERMINATION_TIMEOUT_MS (while it copies the database, it cannot handle
 * signals), and calls `onStuck` if it still runs after KILL_TIMEOUT_MS.
 */
function terminateChild(child: ChildProcess, onStuck: () => void): void {
  child.kill('SIGTERM');
  const killTimer = setTimeout(() => child.kill('SIGKILL'), TERMINATION_TIMEOUT_MS);
  const stuckTimer = setTimeout(onStuck, TERMINATION_TIMEOUT_MS + KILL_TIMEOUT_MS);
  for (const timer of [killTimer, stuckTimer]) child.once('close', () => clearTimeout(timer));
}

/** Collects the output of a process. The returned function gives the last MAX_TEXT_LENGTH characters. */
function collectText(stream: NodeJS.ReadableStream): () => string {
  let text = '';
  stream.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(-MAX_TEXT_LENGTH);
  });
  return () => text;
}
