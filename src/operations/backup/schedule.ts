import { Cron } from 'croner';

/** What is wrong with a schedule that looks like one, and what would be right; undefined: nothing. */
export function scheduleMistake(schedule: string): string | undefined {
  if (schedule === 'off') return undefined;
  const right = 'must be off, or minute, hour, day of month, month and day of week as cron writes them, for example "30 2 * * *" for daily at 02:30';
  try {
    return read(schedule).nextRun() === null ? `never comes; ${right}` : undefined;
  } catch {
    return right;
  }
}

/** The last time up to `now` that a schedule names (Unix milliseconds, in the time zone of the machine); undefined: none, or it is off. */
export function lastDue(schedule: string, now: number): number | undefined {
  return schedule === 'off' ? undefined : read(schedule).previousRuns(1, new Date(now))[0]?.getTime();
}

/** The next time after `now`. */
export function nextDue(schedule: string, now: number): number | undefined {
  return schedule === 'off' ? undefined : read(schedule).nextRun(new Date(now))?.getTime();
}

const RUNS_LOOKED_AT = 10;

/** The longest time between two of the next backups, in milliseconds; undefined where there is no schedule. */
export function longestInterval(schedule: string, now: number): number | undefined {
  if (schedule === 'off') return undefined;
  const runs = read(schedule).nextRuns(RUNS_LOOKED_AT, new Date(now)).map((run) => run.getTime());
  return runs.length < 2 ? undefined : Math.max(...runs.slice(1).map((run, at) => run - (runs[at] as number)));
}

function read(schedule: string): Cron {
  return new Cron(schedule, { paused: true, mode: '5-part' });
}
