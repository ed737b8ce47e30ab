import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** The command that makes a backup and tells of it by one JSON value on stdout: `plantroom backup --rotate --json`. */
export interface BackupCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** All variables that it has: what it is to work on, and its secrets, which are in no list of processes there. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** How it ended. */
export interface BackupOutcome {
  /** What it told; undefined: it failed. */
  readonly told: { readonly file: string; readonly bytes: number; readonly removed: readonly string[]; readonly warnings: readonly string[] } | undefined;
  /** What it said of its failure. */
  readonly error: string;
}

const LONGEST_TEXT = 64 * 1024;
/** How long it may take to leave off and to clean up, in milliseconds. */
const LEAVES_OFF_MS = 1000;
/** How long one that was ended by force may take to be gone: what waits for a disk that hangs is not. */
const GONE_MS = 5000;

/** Runs it to its end; it is ended when the signal aborts, at once if it does not leave off. Never rejects. */
export async function runBackupCommand({ file, args, env }: BackupCommand, signal: AbortSignal): Promise<BackupOutcome> {
  const child = spawn(file, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const { promise: stuck, reject: giveUp } = Promise.withResolvers<never>();
  stuck.catch(() => {});
  const leave = (): void => endChild(child, () => giveUp(new Error('the command could not be ended; it may wait for a disk that does not answer')));
  signal.addEventListener('abort', leave, { once: true });
  if (signal.aborted) leave();
  const [said, complained] = [collected(child.stdout), collected(child.stderr)];
  try {
    const [code] = (await Promise.race([once(child, 'close'), stuck])) as [number | null];
    const error = complained().trim().replace(/^plantroom: /, '');
    return code === 0 ? { told: JSON.parse(said()) as BackupOutcome['told'], error } : { told: undefined, error: error || `the command ended with ${String(code ?? child.signalCode)}` };
  } catch (error) {
    return { told: undefined, error: (error as Error).message };
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

function endChild(child: ChildProcess, onStuck: () => void): void {
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), LEAVES_OFF_MS); // while it copies the database it hears nothing
  const last = setTimeout(onStuck, LEAVES_OFF_MS + GONE_MS);
  for (const each of [timer, last]) child.once('close', () => clearTimeout(each));
}

function collected(stream: NodeJS.ReadableStream): () => string {
  let text = '';
  stream.setEncoding('utf8').on('data', (part: string) => (text = (text + part).slice(-LONGEST_TEXT)));
  return () => text;
}
