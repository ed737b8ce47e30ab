import { join } from 'node:path';
import { openDatabase, type Database } from '../../src/database';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { HOUR_MS } from '../../src/kernel/timeUnits';
import { toHour } from '../../src/telemetry/readings/hourSummary';
import { POSITIONS_PER_MS } from '../../src/telemetry/readings/storedReading';
import { print } from './measure';
import type { PlantroomServer } from './plantroomServer';

const MINUTE = 60_000;
const MINUTES = 60;
const CHUNK = 100_000;
/** The summary of an hour; the value of each minute is its number in the hour. */
const HOUR = { count: MINUTES, sum: 1770, min: 0, max: 59, first: 0, last: 59, area: 1711 * MINUTE };

/**
 * Writes a reading per minute for the last full hours of these sensors, and the hour summaries, by SQL. No server may be
 * running, and each sensor must already have a reading. Returns the end of the last hour, Unix milliseconds.
 */
export async function createReadingHistory(
  server: PlantroomServer,
  sensorIds: readonly string[],
  hours: number,
): Promise<number> {
  const database = await openDatabase({ url: '', dataDir: join(server.folder, 'data'), log: silentLogger });
  const until = toHour(systemClock.now()) - HOUR_MS;
  const began = performance.now();
  try {
    for (const sensorId of sensorIds) await fillSeries(database, sensorId, until - hours * HOUR_MS, hours);
    await database.transaction(async ({ knex }) => await knex('reading_series').update({ summed_until: until }));
  } finally {
    await database.close();
  }
  const seconds = (performance.now() - began) / 1000;
  if (seconds > 3)
    print(
      `  ${sensorIds.length * hours * MINUTES} readings of ${sensorIds.length} sensors written in ${seconds.toFixed(0)} s`,
    );
  return until;
}

async function fillSeries(database: Database, sensorId: string, from: number, hours: number): Promise<void> {
  const { number } = await database.db
    .knex('reading_series')
    .where('sensor_id', sensorId)
    .first<{ number: number }>('number');
  const count = hours * MINUTES;
  for (let first = 0; first < count; first += CHUNK) {
    const time = `${from} + n.n * ${MINUTE}`;
    const sql = `insert into readings (series, time, position, kind, num) ${createNumbersTable(first, Math.min(count, first + CHUNK))} select ${number}, ${time}, (${time}) * ${POSITIONS_PER_MS}, 1, n.n % ${MINUTES} from n`;
    await database.transaction(async ({ knex }) => await knex.raw(sql));
  }
  const hour = `${from} + n.n * ${HOUR_MS}`;
  const values = `${HOUR.count}, ${HOUR.sum}, ${HOUR.min}, ${HOUR.max}, ${hour}, ${HOUR.first}, ${hour} + ${HOUR_MS - MINUTE}, ${HOUR.last}, ${HOUR.area}, (${hour} + ${HOUR_MS}) * ${POSITIONS_PER_MS}`;
  const sums = `insert into reading_hours (series, hour, count, sum, min, max, first_time, first, last_time, last, area, position) ${createNumbersTable(0, hours)} select ${number}, ${hour}, ${values} from n`;
  await database.transaction(async ({ knex }) => await knex.raw(sums));
}

function createNumbersTable(from: number, to: number): string {
  return `with recursive n(n) as (select ${from} union all select n.n + 1 from n where n.n < ${to - 1})`;
}
