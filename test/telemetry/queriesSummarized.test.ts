import { type AggregateQuery, Aggregates } from '../../src/telemetry/queries/aggregates';
import type { Bucket } from '../../src/telemetry/queries/bucketValues';
import { Cursors } from '../../src/kernel/pages';
import { engines } from '../support/engines';
import { DAY, HOUR, type RetentionFixture, startRetentionFixture } from './retentionFixture';

describe.each(engines())('aggregates of summarized readings on $name', (engine) => {
  let fixture: RetentionFixture;
  beforeAll(async () => {
    fixture = await startRetentionFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  it('are the same before and after summarizing, include late readings, and use complete hours for downsampled ones', async () => {
    const { clock, test } = fixture.devices;
    const [sensorId] = fixture.sensors;
    const aggregates = new Aggregates({ database: test.database, cursors: new Cursors(Buffer.alloc(32)), clock });
    const start = clock.now() - (clock.now() % DAY);
    const queryBuckets = async (query: Partial<AggregateQuery>): Promise<readonly Bucket[]> => {
      const all = {
        sensorIds: [sensorId],
        from: start,
        to: start + 3 * DAY,
        bucket: { count: 1, unit: 'hour' },
        timeZone: 'UTC',
        functions: [],
        fill: 'null',
        pageToken: '',
        ...query,
      } as const;
      return (await aggregates.query('org-1', all, new AbortController().signal)).sensors[0]?.buckets ?? [];
    };
    const questions: Partial<AggregateQuery>[] = [
      {},
      { from: start + 100_000, to: start + 2 * DAY + 5 },
      { bucket: { count: 1, unit: 'day' }, timeZone: 'Asia/Kolkata' },
      { bucket: { count: 15, unit: 'minute' }, fill: 'previous' },
    ];
    const queryAll = async () => await Promise.all(questions.map(async (question) => await queryBuckets(question)));
    clock.advance(3 * DAY);
    for (let i = 0; i < 60; i += 1)
      await fixture.uplink(start + ((i * 7919) % ((2 * DAY) / 1000)) * 1000, { a: i - 30, c: 'text' });

    const before = await queryAll();
    await fixture.summariser.sumUp(fixture.work());
    expect((await fixture.hours(sensorId)).length).toBeGreaterThan(10);
    expect(await queryAll()).toEqual(before);

    await fixture.uplink(start + 5 * HOUR + 1, { a: 1000 });
    await fixture.uplink(start + 40 * HOUR, { a: -1000 });
    const late = await queryAll();
    expect(late).not.toEqual(before);
    await fixture.summariser.recomputeStale(fixture.work());
    expect(await queryAll()).toEqual(late);

    await fixture.retain(365, 1);
    clock.advance(3 * DAY);
    await fixture.sumUp();
    await fixture.removal.run(fixture.work());
    expect((await fixture.readings(sensorId)).filter(({ num }) => num !== null)).toEqual([]);
    expect(await queryBuckets({})).toEqual(late[0]);
  });
});
