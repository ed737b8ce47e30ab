import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/** A clock that runs from the start of the machine and does not stop when it sleeps: no setting of the time of day moves it. */
export interface MachineClock {
  /** Which start of the machine it counts from; what was counted from another one means nothing. */
  readonly machineStart: string;
  /** Milliseconds since then, at the most so many. Deadlines are counted from this. */
  earliest(): number;
  /** Milliseconds since then, at the least so many. Deadlines are compared with this. */
  latest(): number;
}

const BOOT_ID = '/proc/sys/kernel/random/boot_id';
// Linux tells the uptime in steps of 10 ms.
const STEP_MS = 10;

/** The clock of this machine. Where there is none that outlives the process (not Linux) it starts with the process, and the start is one that never matches. */
export function machineClock(): MachineClock {
  const machineStart = findMachineStart();
  if (machineStart !== undefined) return { machineStart, earliest: () => uptime() * 1000, latest: () => uptime() * 1000 + STEP_MS };
  return { machineStart: `process ${process.pid} ${performance.timeOrigin}`, earliest: () => performance.now(), latest: () => performance.now() };
}

function findMachineStart(): string | undefined {
  try {
    return process.platform === 'linux' ? readFileSync(BOOT_ID, 'utf8').trim() || undefined : undefined;
  } catch {
    return undefined; // a container may hide it: then deadlines do not outlive the process
  }
}
