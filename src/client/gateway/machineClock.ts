import { existsSync, readFileSync } from 'node:fs';
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

// Linux tells the uptime in steps of 10 ms.
const STEP_MS = 10;
// Of /proc/1/stat after the name, which is in brackets and may hold anything: when it started.
const STARTED_AT = 19;

/** The clock of this machine. Where there is none that outlives the process (not Linux) it starts with the process, and the start is one that never matches. */
export function machineClock(): MachineClock {
  const machineStart = process.platform === 'linux' ? findMachineStart(readIfThere) : undefined;
  if (machineStart !== undefined) return { machineStart, earliest: () => uptime() * 1000, latest: () => uptime() * 1000 + STEP_MS };
  return { machineStart: `process ${process.pid} ${performance.timeOrigin}`, earliest: () => performance.now(), latest: () => performance.now() };
}

/**
 * What the uptime of this process counts from: the start of the machine, and in a container that has an uptime of its own what tells its starts apart.
 * `read` gives the text of a file, undefined where there is none. Undefined: it cannot be known.
 */
export function findMachineStart(read: (file: string) => string | undefined): string | undefined {
  try {
    const boot = read('/proc/sys/kernel/random/boot_id')?.trim();
    return boot ? [boot, namespaceOffset(read), containerStart(read)].join(' ').trim() : undefined;
  } catch {
    return undefined; // a container may hide it: then deadlines do not outlive the process
  }
}

/** A time namespace sets the uptime off. */
function namespaceOffset(read: (file: string) => string | undefined): string {
  return /^boottime\s+(.*)$/m.exec(read('/proc/self/timens_offsets') ?? '')?.[1]?.replace(/^0\s+0$/, '') ?? '';
}

/** lxcfs lays an uptime over that of the machine, which counts from the start of the first process of the container. */
function containerStart(read: (file: string) => string | undefined): string {
  if (read('/proc/self/mountinfo')?.includes(' /proc/uptime ') !== true) return '';
  const stat = read('/proc/1/stat') ?? '';
  const startedAt = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[STARTED_AT];
  if (!startedAt) throw new Error('the start of the container is not known');
  return startedAt;
}

function readIfThere(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}
