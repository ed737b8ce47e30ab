import { ReadingSequence, ReadingMaintenance, SeriesIdCache, UplinkPipeline } from '../../src/telemetry';
import { BackgroundWork } from '../../src/telemetry/retention/backgroundWork';
import { HourlyRollup } from '../../src/telemetry/retention/hourlyRollup';
import type { SummedHour } from '../../src/telemetry/readings/hourQueryRepository';
import { ReadingRemoval } from '../../src/telemetry/retention/readingRemoval';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import type { TestEngine } from '../support/engines';

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

/** A device with sensors whose readings arrive through real uplinks, and the maintenance of its readings. */
export interface RetentionFixture {
  readonly devices: DeviceFixture;
  readonly positions: ReadingSequence;
  readonly series: SeriesIdCache;
  readonly summariser: HourlyRollup;
  readonly removal: ReadingRemoval;
  readonly maintenance: ReadingMaintenance;
  readonly deviceId: string;
  /** Two number sensors (paths a and b) and one string sensor (path c). */
  readonly sensors: readonly [string, string, string];
  /** Sends an uplink with these values at this device time. */
  uplink(time: number, values: Readonly<Record<string, unknown>>): Promise<void>;
  /** Writes all summaries that are due. */
  sumUp(): Promise<void>;
  /** Creates background work with a maximum number of rows per step. With `steps` it is aborted before the next one. */
  work(rows?: number, steps?: number): BackgroundWork;
  retain(retentionDays: number, downsampleAfterDays: number | null): Promise<void>;
  /** Moves all readings this number of days into the past. */
  age(days: number): Promise<void>;
  /** Reads the stored hours of a sensor. */
  hours(sensorId: string): Promise<SummedHour[]>;
  /** Reads the stored numbers and strings of a sensor, ordered by time. */
  readings(sensorId: string): Promise<{ time: number; num: number | null; txt: string | null }[]>;
  count(table: string): Promise<number>;
  stop(): Promise<void>;
}

/** Starts the fixture. */
export async function startRetentionFixture(engine: TestEngine): Promise<RetentionFixture> {
  const devices = await startDeviceFixture(engine);
  const { clock, test, connections, log } = devices;
  const { database } = test;
  const { knex } = database.db;
  const positions = new ReadingSequence(clock);
  const series = new SeriesIdCache();
  const options = { database, clock, positions, series, log };
  const pipeline = new UplinkPipeline({ ...options, evaluateExecutions: async () => {} });
  const summariser = new HourlyRollup(options);
  const { id: deviceId, sensors } = await createSendingDevice(devices);
  const work = (rows?: number, steps?: number): BackgroundWork =>
    new BackgroundWork({
      database,
      clock,
      signal: signalAfter(steps),
      ...(rows !== undefined && { maxBatchSize: rows }),
    });
  let next = 0;
  return {
    devices,
    positions,
    series,
    summariser,
    deviceId,
    sensors,
    work,
    removal: new ReadingRemoval(options),
    maintenance: new ReadingMaintenance(options),
    uplink: async (time, value) => {
      const identity = { kind: 'id', uplinkId: `u-${(next += 1)}` } as const;
      await pipeline.handle({
        organizationId: 'org-1',
        connectionId: connections[0],
        identity,
        clientDeviceId: 'sender',
        receivedAt: clock.now(),
        time,
        clock: 'c',
        payload: { kind: 'json', value },
        fPort: undefined,
      });
    },
    sumUp: async () => {
      await summariser.sumUp(work());
      await summariser.recomputeStale(work());
    },
    retain: async (retentionDays, downsampleAfterDays) =>
      void (await knex('organizations')
        .where('id', 'org-1')
        .update({ reading_retention_days: retentionDays, thin_readings_after_days: downsampleAfterDays })),
    age: async (days) =>
      void (await knex('readings').update({ position: knex.raw('position - ?', [days * DAY * 1024]) })),
    hours: async (sensorId) =>
      await knex('reading_hours as h')
        .join('reading_series as s', 's.number', 'h.series')
        .where('s.sensor_id', sensorId)
        .orderBy('h.hour')
        .select({
          hour: 'h.hour',
          count: 'h.count',
          sum: 'h.sum',
          min: 'h.min',
          max: 'h.max',
          firstTime: 'h.first_time',
          first: 'h.first',
          lastTime: 'h.last_time',
          last: 'h.last',
          area: 'h.area',
        }),
    readings: async (sensorId) =>
      await knex('readings as r')
        .join('reading_series as s', 's.number', 'r.series')
        .where('s.sensor_id', sensorId)
        .orderBy(['r.time', 'r.position'])
        .select('r.time', 'r.num', 'r.txt'),
    count: async (table) => Number((await knex(table).count<{ n: number }[]>({ n: '*' }))[0]?.n),
    stop: async () => await devices.stop(),
  };
}

async function createSendingDevice(fixture: DeviceFixture): Promise<{ id: string; sensors: [string, string, string] }> {
  const [numbers, texts] = fixture.templates;
  await fixture.test.database.db.knex('sensor_templates').where({ id: texts }).update({ value_type: 'string' });
  const { id } = await fixture.api.create({
    name: 'Sender',
    physicalDevice: { clientDeviceId: 'sender', connectionId: fixture.connections[0] },
  });
  const { sensors } = await fixture.api.addSensors({ id, sensorTemplateIds: [numbers, numbers, texts] });
  const ids = sensors.map((sensor) => sensor.id) as [string, string, string];
  await fixture.api.setMappings({
    id,
    mappings: ids.map((sensorId, at) => ({ sensorId, sourcePath: 'abc'[at] ?? '' })),
  });
  return { id, sensors: ids };
}

/** Implements the part of AbortSignal that the work uses. It aborts the work after this number of steps. */
function signalAfter(steps = Infinity): AbortSignal {
  let left = steps;
  return { throwIfAborted: () => void (left-- > 0 || ended()) } as AbortSignal;
}

/** The error message of aborted work. */
export const ENDED = 'the test ended the work';

function ended(): never {
  throw new Error(ENDED);
}
