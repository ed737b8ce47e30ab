import { readdir, readFile } from 'node:fs/promises';
import type { Logger } from '../kernel/logger';

const CHECK_INTERVAL_MS = 5000;
const LOG_INTERVAL_MS = 60_000;
/** With this few descriptors left, the operating system rejects the next connections before the server sees them. */
const MIN_FREE_DESCRIPTORS = 8;

/** The options of the watch. */
interface DescriptorWatchOptions {
  readonly log: Logger;
  /** The interval between two checks, in milliseconds; 5 s by default. */
  readonly checkIntervalMs?: number;
  /** Fewer free descriptors than this are logged as exhausted; 8 by default. */
  readonly minFree?: number;
}

/**
 * The number of open descriptors (files, connections) of the process, and their limit; undefined if the system does not
 * report it.
 */
export async function readDescriptorUsage(): Promise<{ readonly open: number; readonly max: number } | undefined> {
  try {
    // Each open descriptor is an entry of /proc/self/fd.
    const [descriptors, limits] = await Promise.all([readdir('/proc/self/fd'), readFile('/proc/self/limits', 'utf8')]);
    const max = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity);
    return { open: descriptors.length, max };
  } catch {
    return undefined; // not Linux, or no /proc
  }
}

/**
 * Logs, at most once a minute, that the process is out of descriptors: then the operating system accepts connections
 * and closes them again, and neither port notices it. Returns a function that stops the watch.
 */
export function watchDescriptors({
  log,
  checkIntervalMs = CHECK_INTERVAL_MS,
  minFree = MIN_FREE_DESCRIPTORS,
}: DescriptorWatchOptions): () => void {
  let lastLoggedAt = -Infinity;
  const checkDescriptors = async (): Promise<void> => {
    const usage = await readDescriptorUsage();
    const isExhausted = usage !== undefined && usage.max - usage.open < minFree;
    if (!isExhausted || performance.now() - lastLoggedAt < LOG_INTERVAL_MS) return;
    lastLoggedAt = performance.now();
    log.error(
      {
        open: usage.open,
        max: usage.max,
        message:
          'new connections are rejected: find the clients with too many connections, or raise the limit (LimitNOFILE of systemd, ulimit -n)',
      },
      'server.descriptors_used_up',
    );
  };
  const timer = setInterval(() => void checkDescriptors(), checkIntervalMs).unref();
  return () => clearInterval(timer);
}
