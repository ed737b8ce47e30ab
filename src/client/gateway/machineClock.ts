import { existsSync, readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/**
 * A monotonic clock that starts with the machine and also runs while the machine sleeps. Changes of the system time do
 * not affect it.
 */
export interface MachineClock {
  /** Identifies the start of the machine from which the clock counts. Times of different starts cannot be compared. */
  readonly machineStart: string;
  /** A time that is never later than the real time, in milliseconds since the start. Use it to compute deadlines. */
  earliest(): number;
  /** A time that is never earlier than the real time, in milliseconds since the start. Use it to check deadlines. */
  latest(): number;
}

// The resolution of the uptime on Linux, 10 ms.
const UPTIME_RESOLUTION_MS = 10;
// The index of the start time in /proc/1/stat after the process name, which is in parentheses and may contain any
// character.
const START_TIME_FIELD = 19;

/**
 * Creates the clock of this machine. On systems without a clock that outlives the process (not Linux), it starts with
 * the process, and `machineStart` never matches another start.
 */
export function createMachineClock(): MachineClock {
  const machineStart = process.platform === 'linux' ? findMachineStart(readIfExists) : undefined;
  if (machineStart !== undefined)
    return { machineStart, earliest: () => uptime() * 1000, latest: () => uptime() * 1000 + UPTIME_RESOLUTION_MS };
  return {
    machineStart: `process ${process.pid} ${performance.timeOrigin}`,
    earliest: () => performance.now(),
    latest: () => performance.now(),
  };
}

/**
 * Identifies the start from which the uptime of this process counts: the start of the machine, or of the container if
 * it has its own uptime. `read` returns the text of a file; undefined if it does not exist. Returns undefined if the
 * start cannot be identified.
 */
export function findMachineStart(read: (file: string) => string | undefined): string | undefined {
  try {
    const bootId = read('/proc/sys/kernel/random/boot_id')?.trim();
    return bootId ? [bootId, readNamespaceOffset(read), readContainerStart(read)].join(' ').trim() : undefined;
  } catch {
    return undefined; // A container may hide these files. Deadlines are then not valid after a restart of the process.
  }
}

/** Returns the offset that a time namespace adds to the uptime; empty: none. */
function readNamespaceOffset(read: (file: string) => string | undefined): string {
  // A line per clock: its name, then the offset in seconds and nanoseconds.
  const offset = /^boottime\s+(.*)$/m.exec(read('/proc/self/timens_offsets') ?? '')?.[1] ?? '';
  const isZero = /^0\s+0$/.test(offset);
  return isZero ? '' : offset;
}

/**
 * Returns when the first process of the container started, if lxcfs makes the uptime count from then; empty: the uptime
 * is that of the machine. Throws if the start is unknown.
 */
function readContainerStart(read: (file: string) => string | undefined): string {
  if (read('/proc/self/mountinfo')?.includes(' /proc/uptime ') !== true) return '';
  const processStat = read('/proc/1/stat') ?? '';
  const fieldsAfterName = processStat.slice(processStat.lastIndexOf(')') + 2).split(' ');
  const startedAt = fieldsAfterName[START_TIME_FIELD];
  if (!startedAt) throw new Error('the start time of the container is unknown');
  return startedAt;
}

function readIfExists(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}
