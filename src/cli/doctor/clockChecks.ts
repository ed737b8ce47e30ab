import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config';
import { findDataFolderHolder } from '../../database';
import { findRemembered } from '../../operations';
import { fail, ok, warn, type Finding } from './check';

const WRITTEN_IN = Date.UTC(2026, 0, 1);
const A_DAY = 86_400_000;
const MOST_AHEAD = 3 * A_DAY;

/** Whether the clock of the machine can be right, by what the server remembers of it. */
export function machineClock({ data }: Config): Finding[] {
  const now = Date.now();
  const time = new Date(now).toISOString();
  if (now < WRITTEN_IN) return [fail('clock', `it is ${time}, before this program was written`, 'set the clock of the machine, best by NTP')];
  const database = join(data.dir, 'plantroom.db');
  const written = existsSync(database) ? statSync(database).mtimeMs : 0;
  if (written > now + 60_000) return [warn('clock', `it is ${time}, but the database was last written at ${new Date(written).toISOString()}`, 'the clock went back; set it, best by NTP')];
  const seen = findRemembered(data.dir)?.seen ?? now;
  const wrong = `set the clock (NTP); if it is right, stop the server and delete ${join(data.dir, 'clock.json')}`;
  if (seen > now + A_DAY) return [warn('clock', `it is ${time}, but the server has seen ${new Date(seen).toISOString()} and goes by that`, wrong)];
  const isHeld = now > seen + MOST_AHEAD && findDataFolderHolder(data.dir) !== undefined;
  return [isHeld ? warn('clock', `it is ${time}, days ahead of what the server believes: nothing that is kept for a time is removed`, wrong) : ok('clock', time)];
}
