import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';

const NICE = 10;

/**
 * Lets the thread that calls it have only the time that the server leaves. Elsewhere than on Linux a thread has no priority of its own to be
 * set from here. Answers the thread's id as the system has it, if it does.
 */
export function lowerPriority(): number | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const tid = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(tid, NICE);
    return tid;
  } catch {
    return undefined; // a container without /proc: the thread then shares the processor evenly with the server
  }
}
