import { LiveReadings } from '../../src/telemetry/queries/liveReadings';
import { ReadingSequence } from '../../src/telemetry/readings/readingSequence';
import type { StoredReading } from '../../src/telemetry/readings/storedReading';
import { TestClock } from '../support/testClock';

function setUp(matters: (sensorId: string) => boolean = () => true) {
  const positions = new ReadingSequence(new TestClock());
  const end = new AbortController();
  const live = new LiveReadings(positions, 'org-1', matters, end.signal);
  const store = (
    count: number,
    { sensorId = 's', organizationId = 'org-1', position = positions.open(organizationId), text = '' } = {},
  ): number => {
    positions.close(organizationId, position);
    const shown =
      text === '' ? ({ valueType: 'number', value: 1 } as const) : ({ valueType: 'string', value: text } as const);
    positions.publish(
      organizationId,
      Array.from({ length: count }, (): StoredReading => ({ sensorId, ...shown, time: 0, position })),
    );
    return position;
  };
  return { positions, live, store, end };
}

describe('live readings', () => {
  it('contain matching stored readings of the organization, up to the watermark on disk', () => {
    const { positions, live, store } = setUp((sensorId) => sensorId !== 'other');
    const first = store(2);
    const slow = positions.open('org-1');
    store(1, { sensorId: 'other' });
    store(1, { organizationId: 'org-2' });
    store(3);
    expect(live.drain()).toMatchObject({ until: slow - 1, readings: { length: 5 } });
    expect(slow - 1).toBe(first);
    const last = store(1, { position: slow });
    expect(live.drain().readings.map(({ position }) => position)).toEqual([last]);
    live.close();
    store(1);
    expect(live.drain().readings).toEqual([]);
  });

  it('are dropped when there are too many, until the reader knows the watermark on disk', async () => {
    const { positions, live, store } = setUp();
    const slow = positions.open('org-1');
    store(30_000);
    store(30_000);
    const left = store(1);
    expect([live.isBehind, live.drain().readings.length]).toEqual([true, 30_000]);
    const restarting = live.restart();
    store(1, { position: slow });
    const until = await restarting;
    expect(until).toBeGreaterThanOrEqual(left);
    expect(live.isBehind).toBe(false);
    store(2);
    expect(live.drain().readings).toHaveLength(2);
  });

  it('are dropped when they are too large, not only when there are too many, until some are drained', () => {
    const { live, store } = setUp();
    const text = 'x'.repeat(60_000);
    store(60, { text });
    expect(live.drain().readings).toHaveLength(60);
    store(60, { text });
    expect(live.isBehind).toBe(false);
    store(60, { text });
    expect([live.isBehind, live.drain().readings.length]).toEqual([true, 60]);
  });

  it('keep readings after the restart position', async () => {
    const { positions, live, store } = setUp();
    const slow = positions.open('org-1');
    store(1);
    const restarting = live.restart();
    const later = positions.open('org-1');
    store(1, { position: slow });
    const after = store(1);
    const until = await restarting;
    expect(until).toBeLessThan(later);
    expect(live.drain().readings.map(({ position }) => position)).toEqual([after]);
  });

  it('wake a waiting reader with new readings and at the end', async () => {
    const { live, store, end } = setUp();
    const news = live.wait(1_000_000);
    store(1);
    await news;
    await live.wait(1_000_000);
    live.drain();
    const last = live.wait(1_000_000);
    end.abort();
    await last;
    await live.wait(1_000_000);
    expect(live.isBehind).toBe(false);
  });
});
