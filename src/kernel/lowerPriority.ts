import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';

/** The `nice` value of background work, from -20 (highest priority) to 19 (lowest). */
const BACKGROUND_PRIORITY = 10;

/**
 * Lowers the priority of the calling thread, so that it gets little CPU time while other threads are busy. Only Linux
 * has priorities of threads. Returns the system's thread id; undefined if the priority was not lowered.
 */
export function lowerPriority(): number | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    // The link points to `<process id>/task/<thread id>`.
    const tid = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(tid, BACKGROUND_PRIORITY);
    return tid;
  } catch {
    return undefined; // In a container without /proc the thread runs at normal priority.
  }
}
