import { Cron } from 'croner';

// The cron library also accepts other forms, for example @daily.
const FIVE_FIELDS = /^\S+(?: \S+){4}$/;

/** Returns what is wrong with a schedule and how to fix it; undefined if it is valid. */
export function findScheduleError(schedule: string): string | undefined {
  if (schedule === 'off') return undefined;
  const requirement =
    'must be "off" or a cron expression (minute, hour, day of month, month, day of week), for example "30 2 * * *" for daily at 02:30';
  try {
    if (!FIVE_FIELDS.test(schedule)) return requirement;
    return parseSchedule(schedule).nextRun() === null ? `matches no future time; it ${requirement}` : undefined;
  } catch {
    return requirement;
  }
}

/**
 * Returns the last due time up to `now` (Unix milliseconds, in the time zone of the machine); undefined if there is
 * none or the schedule is off.
 */
export function findLastDueTime(schedule: string, now: number): number | undefined {
  return schedule === 'off' ? undefined : parseSchedule(schedule).previousRuns(1, new Date(now))[0]?.getTime();
}

const UPCOMING_RUNS = 10;

/**
 * Returns the longest interval between two of the next UPCOMING_RUNS due times, in milliseconds; undefined if the
 * schedule is off or has fewer than two due times. The interval is not always the same: `0 2 * * 1,2` has intervals of
 * one and six days.
 */
export function getMaxInterval(schedule: string, now: number): number | undefined {
  if (schedule === 'off') return undefined;
  const dueTimes = parseSchedule(schedule)
    .nextRuns(UPCOMING_RUNS, new Date(now))
    .map((run) => run.getTime());
  if (dueTimes.length < 2) return undefined;
  const [, ...laterTimes] = dueTimes;
  // The index of a later time is that of the due time before it.
  const intervals = laterTimes.map((dueTime, index) => dueTime - (dueTimes[index] as number));
  return Math.max(...intervals);
}

function parseSchedule(schedule: string): Cron {
  return new Cron(schedule, { paused: true, mode: '5-part' });
}
