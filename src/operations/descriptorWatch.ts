import { readdir, readFile } from 'node:fs/promises';
import type { Logger } from '../kernel/logger';

const EVERY_MS = 5000;
const SAID_EVERY_MS = 60_000;
/** So few left, and the next connections are turned away by the operating system before anybody hears of them. */
const FEW = 8;

/** What the watch needs. */
export interface DescriptorWatchOptions {
  readonly log: Logger;
  /** How often it looks, in milliseconds; every 5 s where nothing is said. */
  readonly everyMs?: number;
  /** So few left are none; 8 where nothing is said. */
  readonly few?: number;
}

/** How many descriptors (files, connections) the process has open, and may have; undefined where the system does not tell. */
export async function descriptors(): Promise<{ readonly open: number; readonly most: number } | undefined> {
  try {
    const [names, limits] = await Promise.all([readdir('/proc/self/fd'), readFile('/proc/self/limits', 'utf8')]);
    const most = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity);
    return { open: names.length, most };
  } catch {
    return undefined;
  }
}

/**
 * Says, at most once a minute, that the process is out of descriptors: then the operating system accepts a connection and closes it again,
 * and neither port learns of it. Returns how to stop watching.
 */
export function watchDescriptors({ log, everyMs = EVERY_MS, few = FEW }: DescriptorWatchOptions): () => void {
  let saidAt = -Infinity;
  const look = async (): Promise<void> => {
    const found = await descriptors();
    if (!found || found.most - found.open >= few || performance.now() - saidAt < SAID_EVERY_MS) return;
    saidAt = performance.now();
    log.error({ open: found.open, most: found.most, message: 'new connections are turned away; see who holds so many, or raise the limit (LimitNOFILE of systemd, ulimit -n)' }, 'server.descriptors_used_up');
  };
  const timer = setInterval(() => void look(), everyMs).unref();
  return () => clearInterval(timer);
}
