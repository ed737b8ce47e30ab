import { type AggregateQuery, Aggregates } from '../../src/telemetry/queries/aggregates';
import type { Bucket } from '../../src/telemetry/queries/bucketValues';
import { Cursors } from '../../src/kernel/pages';
import { engines } from '../support/engines';
import { DAY, HOUR, type RetentionRoom, startRetentionRoom } from './retentionRoom';

describe.each(engines())('aggregates of readings that are summed up on $name', (engine) => {
  let room: RetentionRoom;
  beforeAll(async () => {
    room = await startRetentionRoom(engine);
  });
  afterAll(async () => await room.stop());

  it('are the same before and after that, with readings that come late, and by whole hours when they are thinned', async () => {
    const { clock, test } = room.devices;
    const [sensorId] = room.sensors;
    const aggregates = new Aggregates({ database: test.database, cursors: new Cursors(Buffer.alloc(32)), clock });
    const start = clock.now() - (clock.now() % DAY);
    const ask = async (query: Partial<AggregateQuery>): Promise<readonly Bucket[]> => {
      const all = { sensorIds: [sensorId], from: start, to: start + 3 * DAY, bucket: { count: 1, unit: 'hour' }, timeZone: 'UTC', functions: [], fill: 'null', pageToken: '', ...query } as const;
      return (await aggregates.query('org-1', all, new AbortController().signal)).sensors[0]?.buckets ?? [];
    };
    const questions: Partial<AggregateQuery>[] = [{}, { from: start + 100_000, to: start + 2 * DAY + 5 }, { bucket: { count: 1, unit: 'day' }, timeZone: 'Asia/Kolkata' }, { bucket: { count: 15, unit: 'minute' }, fill: 'previous' }];
    const answers = async () => await Promise.all(questions.map(async (question) => await ask(question)));
    clock.advance(3 * DAY);
    for (let i = 0; i < 60; i += 1) await room.uplink(start + ((i * 7919) % (2 * DAY / 1000)) * 1000, { a: i - 30, c: 'text' });

    const before = await answers();
    await room.summariser.sumUp(room.work());
    expect((await room.hours(sensorId)).length).toBeGreaterThan(10);
    expect(await answers()).toEqual(before);

    await room.uplink(start + 5 * HOUR + 1, { a: 1000 });
    await room.uplink(start + 40 * HOUR, { a: -1000 });
    const late = await answers();
    expect(late).not.toEqual(before);
    await room.summariser.redo(room.work());
    expect(await answers()).toEqual(late);

    await room.retain(365, 1);
    clock.advance(3 * DAY);
    await room.sumUp();
    await room.removal.run(room.work());
    expect((await room.readings(sensorId)).filter(({ num }) => num !== null)).toEqual([]);
    expect(await ask({})).toEqual(late[0]);
  });
});
