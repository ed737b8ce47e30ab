import fc from 'fast-check';
import type { UplinkMessage } from '../../src/connections';
import type { JsonValue } from '../../src/kernel/jsonValue';
import { ReadingPositions, SeriesNumbers, type StoredReading, UplinkPipeline } from '../../src/telemetry';
import { ReadingQueryRepository } from '../../src/telemetry/readings/readingQueryRepository';
import { ReadingRepository } from '../../src/telemetry/readings/readingRepository';
import { RefusedValueRepository } from '../../src/telemetry/readings/refusedValueRepository';
import { SeriesRepository } from '../../src/telemetry/readings/seriesRepository';
import { columnsOf, LATE_POSITIONS, POSITIONS_PER_MS, receivedAtOf, valueOf } from '../../src/telemetry/readings/storedReading';
import type { ValueType } from '../../src/sensorTemplates';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

const SEED = Number(process.env['SEED'] ?? 20261121);
const HOUR = 3_600_000;
let next = 0;

describe('a value in its columns', () => {
  const values: Readonly<Record<ValueType, fc.Arbitrary<JsonValue>>> = {
    number: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
    integer: fc.maxSafeInteger(),
    boolean: fc.boolean(),
    string: fc.string({ unit: 'binary' }),
    json: fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as JsonValue),
  };

  it.each(Object.entries(values) as [ValueType, fc.Arbitrary<JsonValue>][])('comes back as it was: %s', (valueType, value) => {
    fc.assert(fc.property(value, (one) => expect(valueOf(columnsOf(valueType, one))).toEqual({ valueType, value: one })), { seed: SEED });
  });

  it('holds nothing that an engine cannot store', () => {
    for (const text of ['\0', 'half \uD800', '\uDC00']) {
      const { txt } = columnsOf('string', text);
      expect(txt).not.toMatch(/[\0\p{Cs}]/u);
      expect(valueOf(columnsOf('string', text)).value).toBe(text);
    }
    expect(() => valueOf({ kind: 99, num: 1, txt: null })).toThrow(RangeError);
  });
});

describe.each(engines())('readings on $name', (engine) => {
  let room: DeviceRoom;

  beforeAll(async () => {
    room = await startDeviceRoom(engine);
  });
  beforeEach(() => room.clock.advance(1000));
  afterAll(async () => await room.stop());

  /** A bound device with two number sensors, fed by `a` and `b`. */
  async function sensing(): Promise<{ deviceId: string; clientDeviceId: string; sensors: [string, string] }> {
    const clientDeviceId = `stored-${(next += 1)}`;
    const { id } = await room.api.create({ name: 'Sensing', physicalDevice: { clientDeviceId, connectionId: room.connections[0] } });
    const { sensors } = await room.api.addSensors({ id, sensorTemplateIds: [...room.templates] });
    const [a, b] = sensors.map((sensor) => sensor.id) as [string, string];
    await room.api.setMappings({ id, mappings: [{ sensorId: a, sourcePath: 'a' }, { sensorId: b, sourcePath: 'b' }] });
    return { deviceId: id, clientDeviceId, sensors: [a, b] };
  }
  function uplink(clientDeviceId: string, value: Record<string, unknown>, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    return { organizationId: 'org-1', connectionId: room.connections[0], identity: { kind: 'none' }, clientDeviceId, receivedAt: room.clock.now(), time: undefined, clock: undefined, payload: { kind: 'json', value }, fPort: undefined, ...overrides };
  }
  async function rowsOf(sensorId: string): Promise<{ time: number; position: number; num: number }[]> {
    return await room.test.database.db.knex('readings as r').join('reading_series as s', 's.number', 'r.series').where('s.sensor_id', sensorId).orderBy(['r.time', 'r.position']).select('r.time', 'r.position', 'r.num');
  }
  async function kept(sensorId: string): Promise<[number, number][]> {
    return (await rowsOf(sensorId)).map(({ time, num }) => [time, num]);
  }
  function pipelineWith(overrides: Partial<ConstructorParameters<typeof UplinkPipeline>[0]>): UplinkPipeline {
    return new UplinkPipeline({ database: room.test.database, log: room.log, positions: room.positions, series: new SeriesNumbers(), judge: async () => {}, ...overrides });
  }

  it('are stored under their own time, unless that cannot be', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const now = room.clock.now();
    for (const [value, time] of [[1, undefined], [2, now - 5000.5], [3, now + 1], [4, Date.UTC(1999, 11, 31)], [5, Date.UTC(2000, 0, 1)], [6, Number.NaN]] as const) {
      await room.pipeline.handle(uplink(clientDeviceId, { a: value }, { time }));
    }
    expect(await kept(sensors[0])).toEqual([[Date.UTC(2000, 0, 1), 5], [now - 5001, 2], [now, 1], [now, 3], [now, 4], [now, 6]]);
    expect(await kept(sensors[1])).toEqual([]);
  });

  it('tell whoever listens, once they are on disk, in the order of their positions', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const told: { from: string; readings: readonly StoredReading[]; watermark: number }[] = [];
    const stop = room.positions.onStored((from, readings) => told.push({ from, readings, watermark: room.positions.watermark() }));
    await room.pipeline.handle(uplink(clientDeviceId, { a: 1, b: 2 }));
    await room.pipeline.handle(uplink(clientDeviceId, { other: 1 }));
    await room.pipeline.handle(uplink(clientDeviceId, { a: 3 }));
    stop();
    await room.pipeline.handle(uplink(clientDeviceId, { a: 4 }));
    expect(told.map(({ from, readings }) => [from, readings.map(({ sensorId, value }) => [sensorId, value])])).toEqual([['org-1', [[sensors[0], 1], [sensors[1], 2]]], ['org-1', [[sensors[0], 3]]]]);
    for (const { readings, watermark } of told) expect(watermark).toBeGreaterThanOrEqual(readings[0]!.position);
    expect(receivedAtOf(told[0]!.readings[0]!.position)).toBe(room.clock.now());
    expect((await rowsOf(sensors[0])).map(({ position }) => position)).toEqual(expect.arrayContaining(told.map(({ readings }) => readings[0]!.position)));
  });

  it('go on after the last position that is stored, also if the clock was set back, whether the last one came late or not', async () => {
    const { clientDeviceId, sensors } = await sensing();
    for (const time of [undefined, room.clock.now() - 30_000, room.clock.now() - 10 * HOUR]) {
      room.clock.advance(1);
      await room.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { time }));
      const last = Math.max(...(await rowsOf(sensors[0])).map(({ position }) => position));
      const positions = new ReadingPositions({ now: () => room.clock.now() - HOUR, monotonic: () => 0 });
      await pipelineWith({ positions }).start();
      expect(positions.open('org-1')).toBe(last + 1);
    }
  });

  it('are found by when they were stored, late ones too', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const repository = new ReadingQueryRepository(room.test.database.db);
    const lateness = fc.array(fc.integer({ min: 0, max: (3 * LATE_POSITIONS) / POSITIONS_PER_MS }), { minLength: 1, maxLength: 12 });
    const rule = async (late: readonly number[], from: number, to: number): Promise<void> => {
      for (const ms of late) {
        room.clock.advance(7000);
        await room.pipeline.handle(uplink(clientDeviceId, { a: ms }, { time: room.clock.now() - ms }));
      }
      const [series] = await repository.sensors('org-1', [sensors[0]]);
      const all = (await rowsOf(sensors[0])).map(({ position }) => position).toSorted((one, other) => one - other);
      const [after, until] = [all[Math.floor(from * (all.length - 1))]!, all[Math.floor(to * (all.length - 1))]!];
      const stored = await repository.stored([series!.series!], { position: after, series: Number.MAX_SAFE_INTEGER }, until, 1000);
      expect(stored.map(({ position }) => position)).toEqual(all.filter((position) => position > after && position <= until));
    };
    await fc.assert(fc.asyncProperty(lateness, fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), rule), { seed: SEED, numRuns: 15 });
  });

  it('make hours stale that are summed up already, or are just about to be', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const series = new SeriesNumbers();
    const pipeline = pipelineWith({ series });
    const hour = Math.floor(room.clock.now() / HOUR) * HOUR;
    const { knex } = room.test.database.db;
    const stale = async (): Promise<number[]> => (await knex('stale_hours as h').join('reading_series as s', 's.number', 'h.series').where('s.sensor_id', sensors[0]).orderBy('h.hour').select('h.hour')).map((row: { hour: number }) => row.hour);
    await pipeline.handle(uplink(clientDeviceId, { a: 1 }, { time: hour - 1 }));
    expect(await stale()).toEqual([]);
    series.raise(sensors[0], hour);
    for (const time of [hour - 1, hour - HOUR, hour - HOUR - 1, hour]) await pipeline.handle(uplink(clientDeviceId, { a: 2 }, { time, receivedAt: hour + HOUR }));
    expect(await stale()).toEqual([hour - 2 * HOUR, hour - HOUR]);
    series.summed(sensors[0]);
    await knex('stale_hours').delete();
    await knex('reading_series').where('sensor_id', sensors[0]).update({ summed_until: hour });
    await pipelineWith({}).handle(uplink(clientDeviceId, { a: 3 }, { time: hour - 1, receivedAt: hour + HOUR }));
    expect(await stale()).toEqual([hour - HOUR]);
  });

  it('with the same series, time and position are stored once: the later one', async () => {
    const { sensors } = await sensing();
    const { database } = room.test;
    await database.transaction(async (db) => {
      const series = (await new SeriesNumbers().of(new SeriesRepository(db), 'org-1', [sensors[0]])).get(sensors[0])!;
      const reading = { sensorId: sensors[0], valueType: 'number', time: 5, position: 7 } as const;
      for (const value of [1, 2]) await new ReadingRepository(db).store([{ series, reading: { ...reading, value } }]);
    });
    expect(await kept(sensors[0])).toEqual([[5, 2]]);
  });

  it('keep the number of their sensor when many uplinks come at once, and after it was forgotten', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const pipeline = pipelineWith({ series: new SeriesNumbers(1) });
    const outcomes = await Promise.all(Array.from({ length: 20 }, async (_, at) => await pipeline.handle(uplink(clientDeviceId, { a: at, b: at }))));
    expect(new Set(outcomes.map(({ outcome }) => outcome))).toEqual(new Set(['stored']));
    expect((await kept(sensors[0])).map(([, value]) => value).toSorted((one, other) => one - other)).toEqual(Array.from({ length: 20 }, (_, at) => at));
    expect(await room.test.database.db.knex('reading_series').whereIn('sensor_id', sensors)).toHaveLength(2);
  });

  it('of one uplink that fails do not take the others along', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const pipeline = pipelineWith({ judge: async (_db, { readings: [reading] }) => (reading?.value === 13 ? await Promise.reject(new Error('unlucky')) : undefined) });
    const outcomes = await Promise.allSettled(Array.from({ length: 200 }, async (_, at) => await pipeline.handle(uplink(clientDeviceId, { a: at }))));
    expect(outcomes.flatMap(({ status }, at) => (status === 'rejected' ? at : []))).toEqual([13]);
    expect(await kept(sensors[0])).toHaveLength(199);
    const before = room.positions.watermark();
    expect(room.positions.open('org-1')).toBeGreaterThan(before); // nothing was left open
    room.positions.close('org-1', room.positions.watermark() + 1);
  });

  it('are counted where they are none of their sensor\'s type, with the last of them', async () => {
    const { clientDeviceId, sensors } = await sensing();
    for (const value of ['warm', [1], '\u{1F525}'.repeat(300)]) {
      room.clock.advance(10);
      await room.pipeline.handle(uplink(clientDeviceId, { a: value, b: 1 }));
    }
    const repository = new RefusedValueRepository(room.test.database.db);
    const [refused, ...others] = await repository.find('org-1', sensors);
    expect(others).toEqual([]);
    expect(refused).toEqual({ sensorId: sensors[0], count: 3, lastAt: room.clock.now(), lastValue: `"${'\u{1F525}'.repeat(99)}`, sourcePath: 'a' });
    expect(await repository.find('org-2', sensors)).toEqual([]);
    expect(await kept(sensors[1])).toHaveLength(3);
  });

  it('tell a repeated delivery from a new message in the same slot', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const send = async (digest: string, isRepetition: boolean, value: number): Promise<string> => (await room.pipeline.handle(uplink(clientDeviceId, { a: value }, { identity: { kind: 'delivery', slot: '7', digest, isRepetition } }))).outcome;
    expect([await send('x', false, 1), await send('x', true, 2), await send('x', false, 3), await send('y', true, 4), await send('y', true, 5), await send('x', true, 6)]).toEqual(['stored', 'duplicate', 'stored', 'stored', 'duplicate', 'stored']);
    expect((await kept(sensors[0])).map(([, value]) => value)).toEqual([1, 3, 4, 6]);
    await expect(room.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { connectionId: room.connections[1] }))).rejects.toMatchObject({ reason: 'connection_not_found' });
  });

  it('believe no repetition of what was acknowledged long ago: its first copy never came', async () => {
    const { clientDeviceId, sensors } = await sensing();
    const send = async (acknowledgedBefore: number, isRepetition: boolean): Promise<string> => (await room.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { receivedAt: room.clock.now(), identity: { kind: 'delivery', slot: '1', digest: 'x', isRepetition, acknowledgedBefore } }))).outcome;
    const first = room.clock.now();
    expect(await send(0, false)).toBe('stored');
    room.clock.advance(1000);
    expect([await send(first, true), await send(first + 1, true), await send(first + 1, true)]).toEqual(['duplicate', 'stored', 'duplicate']);
    expect(await kept(sensors[0])).toHaveLength(2);
  });

  it('of a message that waited at a broker are stored and touch lastSeen, but say nothing of how often the device sends', async () => {
    const { deviceId, clientDeviceId, sensors } = await sensing();
    room.judged.splice(0);
    await room.pipeline.handle(uplink(clientDeviceId, { a: 1 }, { fCnt: 41 }));
    room.clock.advance(60_000);
    await room.pipeline.handle(uplink(clientDeviceId, { a: 2 }, { isBuffered: true, fCnt: 42, deviceClass: 'C' }));
    const device = await room.devices.get('org-1', deviceId);
    expect(device.lastSeenAt).toBe(room.clock.now());
    expect(device.physicalDevice?.uplinkGaps).toEqual([]);
    expect(room.judged).toMatchObject([{ fCnt: 41, readings: [{ fCnt: 41 }] }, { isBuffered: true, fCnt: 42, readings: [{ isBuffered: true, fCnt: 42 }] }]);
    expect(room.judged[0]).not.toHaveProperty('isBuffered');
    const { knex } = room.test.database.db;
    expect(await knex('latest_readings').where('sensor_id', sensors[0]).select('value', 'buffered', 'f_cnt')).toEqual([{ value: '2', buffered: 1, f_cnt: 42 }]);
    const reported = async (): Promise<unknown> => (await knex('physical_devices').where('device_id', deviceId).first<{ reported_class: unknown }>('reported_class')).reported_class;
    expect(await reported()).toBe('C');
    await room.pipeline.handle(uplink(clientDeviceId, { a: 3 }));
    expect(await reported()).toBe('C');
    await room.pipeline.handle(uplink(clientDeviceId, { a: 3 }, { deviceClass: 'A' }));
    expect(await reported()).toBe('A');
    expect((await room.devices.get('org-1', deviceId)).revision).toBe(device.revision);
  });
});

describe('positions of readings', () => {
  const clock = { now: () => 1000, monotonic: () => 0 };

  it('only grow, and say up to where all is on disk', async () => {
    const positions = new ReadingPositions(clock);
    const [one, two, three] = [positions.open('org-1'), positions.open('org-1'), positions.open('org-1')];
    expect([one, two, three]).toEqual([1000 * POSITIONS_PER_MS, 1000 * POSITIONS_PER_MS + 1, 1000 * POSITIONS_PER_MS + 2]);
    expect(positions.watermark()).toBe(one - 1);
    positions.close('org-1', two);
    expect(positions.watermark()).toBe(one - 1);
    const order: string[] = [];
    const settled = positions.settled().then(() => order.push('settled'));
    const late = positions.open('org-1');
    positions.close('org-1', one);
    expect(positions.watermark()).toBe(two);
    await Promise.resolve();
    order.push('three is open');
    positions.close('org-1', three);
    await settled;
    expect(order).toEqual(['three is open', 'settled']);
    expect(positions.watermark()).toBe(three);
    positions.close('org-1', late);
    expect(positions.watermark()).toBe(late);
    await positions.settled();
  });

  it('tell an organization nothing of what others store', async () => {
    const positions = new ReadingPositions(clock);
    for (let others = 0; others < 5; others++) positions.close('org-2', positions.open('org-2'));
    const slow = positions.open('org-2');
    expect(positions.open('org-1')).toBe(1000 * POSITIONS_PER_MS);
    positions.close('org-1', 1000 * POSITIONS_PER_MS);
    expect(positions.watermarkOf('org-1')).toBe(1000 * POSITIONS_PER_MS);
    await positions.settledOf('org-1');
    expect(positions.watermark()).toBe(slow - 1); // of all: from here on nobody stores anything with such a position
    expect(positions.open('org-1')).toBe(slow);
  });

  it('settle with the last one that is under way', () => {
    fc.assert(fc.property(fc.array(fc.boolean()), followsTheFirst), { seed: SEED });
  });
});

/** Opens positions, and closes the first of those that are open, whatever the order. */
function followsTheFirst(steps: readonly boolean[]): void {
  const positions = new ReadingPositions({ now: () => 1000, monotonic: () => 0 });
  const open = new Set<number>();
  let last = 0;
  for (const opens of steps) {
    const [first] = open;
    if (opens || first === undefined) open.add((last = positions.open('org-1')));
    else if (open.delete(first)) positions.close('org-1', first);
    expect(positions.watermark()).toBe(open.size === 0 ? last : Math.min(...open) - 1);
  }
}
