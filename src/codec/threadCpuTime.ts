import { readFileSync } from 'node:fs';

/** The kernel counts in hundredths of a second on every machine. */
const TICK_MS = 10;
// The fields utime and stime of /proc/<pid>/stat, counted from the first field after the thread's name: the name itself
// may contain spaces and parentheses.
const [USER_TICKS_INDEX, SYSTEM_TICKS_INDEX] = [11, 12];

/**
 * Returns the CPU time of a thread of this process in milliseconds; undefined if the system does not report it or the
 * thread has exited.
 */
export function getThreadCpuTime(systemThreadId: number | undefined): number | undefined {
  if (systemThreadId === undefined) return undefined;
  try {
    const stat = readFileSync(`/proc/self/task/${systemThreadId}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[USER_TICKS_INDEX]) + Number(fields[SYSTEM_TICKS_INDEX]);
    return Number.isFinite(ticks) ? ticks * TICK_MS : undefined;
  } catch {
    return undefined;
  }
}
