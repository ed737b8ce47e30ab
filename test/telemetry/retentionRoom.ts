import { ReadingPositions, ReadingUpkeep, SeriesNumbers, UplinkPipeline } from '../../src/telemetry';
import { BackgroundWork } from '../../src/telemetry/retention/backgroundWork';
import { HourSummariser } from '../../src/telemetry/retention/hourSummariser';
import type { SummedHour } from '../../src/telemetry/readings/hourQueryRepository';
import { ReadingRemoval } from '../../src/telemetry/retention/readingRemoval';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import type { TestEngine } from '../support/engines';

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

/** A device with sensors whose readings come by real uplinks, and what keeps its readings in shape. */
export interface RetentionRoom {
  readonly devices: DeviceRoom;
  readonly positions: ReadingPositions;
  readonly series: SeriesNumbers;
  readonly summariser: HourSummariser;
  readonly removal: ReadingRemoval;
  readonly upkeep: ReadingUpkeep;
  readonly deviceId: string;
  /** Two sensors of numbers (paths a and b), one of texts (path c). */
  readonly sensors: readonly [string, string, string];
  /** An uplink with these values at a time of the device's own. */
  uplink(time: number, values: Readonly<Record<string, unknown>>): Promise<void>;
  /** Sums up all that is due. */
  sumUp(): Promise<void>;
  /** Work in the background with steps of so many rows; with `steps` it is ended before the next one. */
  work(rows?: number, steps?: number): BackgroundWork;
  retain(retentionDays: number, thinAfterDays: number | null): Promise<void>;
  /** As if all readings until now had come so many days earlier. */
  age(days: number): Promise<void>;
  /** The hours of a sensor as they are on disk. */
  hours(sensorId: string): Promise<SummedHour[]>;
  /** The numbers and texts of a sensor as they are on disk, by time. */
  readings(sensorId: string): Promise<{ time: number; num: number | null; txt: string | null }[]>;
  count(table: string): Promise<number>;
  stop(): Promise<void>;
}

/** Starts one. */
export async function startRetentionRoom(engine: TestEngine): Promise<RetentionRoom> {
  const devices = await startDeviceRoom(engine);
  const { clock, test, connections, log } = devices;
  const { database } = test;
  const { knex } = database.db;
  const positions = new ReadingPositions(clock);
  const series = new SeriesNumbers();
  const options = { database, clock, positions, series, log };
  const pipeline = new UplinkPipeline({ ...options, judge: async () => {} });
  const summariser = new HourSummariser(options);
  const { id: deviceId, sensors } = await furnish(devices);
  const work = (rows?: number, steps?: number): BackgroundWork => new BackgroundWork({ database, clock, signal: signalAfter(steps), ...(rows !== undefined && { most: rows }) });
  let next = 0;
  return {
    devices, positions, series, summariser, deviceId, sensors, work,
    removal: new ReadingRemoval(options),
    upkeep: new ReadingUpkeep(options),
    uplink: async (time, value) => {
      const identity = { kind: 'id', uplinkId: `u-${(next += 1)}` } as const;
      await pipeline.handle({ organizationId: 'org-1', connectionId: connections[0], identity, clientDeviceId: 'sender', receivedAt: clock.now(), time, clock: 'c', payload: { kind: 'json', value }, fPort: undefined });
    },
    sumUp: async () => {
      await summariser.sumUp(work());
      await summariser.redo(work());
    },
    retain: async (retentionDays, thinAfterDays) => void (await knex('organizations').where('id', 'org-1').update({ reading_retention_days: retentionDays, thin_readings_after_days: thinAfterDays })),
    age: async (days) => void (await knex('readings').update({ position: knex.raw('position - ?', [days * DAY * 1024]) })),
    hours: async (sensorId) =>
      await knex('reading_hours as h').join('reading_series as s', 's.number', 'h.series').where('s.sensor_id', sensorId).orderBy('h.hour')
        .select({ hour: 'h.hour', count: 'h.count', sum: 'h.sum', min: 'h.min', max: 'h.max', firstTime: 'h.first_time', first: 'h.first', lastTime: 'h.last_time', last: 'h.last', area: 'h.area' }),
    readings: async (sensorId) => await knex('readings as r').join('reading_series as s', 's.number', 'r.series').where('s.sensor_id', sensorId).orderBy(['r.time', 'r.position']).select('r.time', 'r.num', 'r.txt'),
    count: async (table) => Number((await knex(table).count<{ n: number }[]>({ n: '*' }))[0]?.n),
    stop: async () => await devices.stop(),
  };
}

async function furnish(room: DeviceRoom): Promise<{ id: string; sensors: [string, string, string] }> {
  const [numbers, texts] = room.templates;
  await room.test.database.db.knex('sensor_templates').where({ id: texts }).update({ value_type: 'string' });
  const { id } = await room.api.create({ name: 'Sender', physicalDevice: { clientDeviceId: 'sender', connectionId: room.connections[0] } });
  const { sensors } = await room.api.addSensors({ id, sensorTemplateIds: [numbers, numbers, texts] });
  const ids = sensors.map((sensor) => sensor.id) as [string, string, string];
  await room.api.setMappings({ id, mappings: ids.map((sensorId, at) => ({ sensorId, sourcePath: 'abc'[at] ?? '' })) });
  return { id, sensors: ids };
}

/** Of an AbortSignal what the work asks; it ends the work before the step after so many. */
function signalAfter(steps = Infinity): AbortSignal {
  let left = steps;
  return { throwIfAborted: () => void (left-- > 0 || ended()) } as AbortSignal;
}

/** How work ends that is told to. */
export const ENDED = 'the test ended the work';

function ended(): never {
  throw new Error(ENDED);
}

