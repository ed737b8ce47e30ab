import { readFileSync } from 'node:fs';

/** The system counts in hundredths of a second, whatever the machine. */
const TICK_MS = 10;
// Counted from behind the thread's name, which may hold anything.
const [USER, SYSTEM] = [11, 12];

/** What a thread of this process has computed, in milliseconds; undefined where the system does not tell, or the thread is gone. */
export function cpuMsOf(tid: number | undefined): number | undefined {
  if (tid === undefined) return undefined;
  try {
    const stat = readFileSync(`/proc/self/task/${tid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[USER]) + Number(fields[SYSTEM]);
    return Number.isFinite(ticks) ? ticks * TICK_MS : undefined;
  } catch {
    return undefined;
  }
}
