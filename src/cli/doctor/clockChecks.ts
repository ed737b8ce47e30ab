import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config';
import { findDataFolderHolder, SQLITE_FILE } from '../../database';
import { loadClockState } from '../../observability';
import { fail, ok, warn, type Finding } from './check';
import { DAY_MS } from '../../kernel/timeUnits';

const MIN_TIME_MS = Date.UTC(2026, 0, 1);
/** The server trusts a clock that is further ahead only after some time; until then it removes no expired data. */
const MAX_CLOCK_LEAD_MS = 3 * DAY_MS;
/** A database file that is newer than the clock by less than this is not reported. */
const MAX_FILE_LEAD_MS = 60_000;

/** Checks that the system clock is plausible, compared with the times that the server recorded. */
export function checkClock({ data }: Config): Finding[] {
  const now = Date.now();
  const time = new Date(now).toISOString();
  if (now < MIN_TIME_MS)
    return [
      fail('clock', `the time is ${time}, which is before this version was built`, 'set the clock, preferably by NTP'),
    ];
  const database = join(data.dir, SQLITE_FILE);
  const writtenAt = existsSync(database) ? statSync(database).mtimeMs : 0;
  if (writtenAt > now + MAX_FILE_LEAD_MS)
    return [
      warn(
        'clock',
        `the time is ${time}, but the database was last written at ${new Date(writtenAt).toISOString()}`,
        'the clock moved backwards: set it, preferably by NTP',
      ),
    ];
  const lastSeenAt = loadClockState(data.dir)?.seen ?? now;
  const setClock = `set the clock (NTP); if it is correct, stop the server and delete ${join(data.dir, 'clock.json')}`;
  if (lastSeenAt > now + DAY_MS)
    return [
      warn(
        'clock',
        `the time is ${time}, but the server recorded ${new Date(lastSeenAt).toISOString()} earlier and uses that`,
        setClock,
      ),
    ];
  const isClockUntrusted = now > lastSeenAt + MAX_CLOCK_LEAD_MS && findDataFolderHolder(data.dir) !== undefined;
  return [
    isClockUntrusted
      ? warn(
          'clock',
          `the time is ${time}, days ahead of the time that the server accepts: retention is paused, and no old data is removed`,
          setClock,
        )
      : ok('clock', time),
  ];
}
