import { LiveReadings } from '../../src/telemetry/queries/liveReadings';
import { ReadingPositions } from '../../src/telemetry/readings/readingPositions';
import type { StoredReading } from '../../src/telemetry/readings/storedReading';
import { TestClock } from '../support/testClock';

function setUp(matters: (sensorId: string) => boolean = () => true) {
  const positions = new ReadingPositions(new TestClock());
  const end = new AbortController();
  const live = new LiveReadings(positions, 'org-1', matters, end.signal);
  const store = (count: number, { sensorId = 's', organizationId = 'org-1', position = positions.open(organizationId), text = '' } = {}): number => {
    positions.close(organizationId, position);
    const shown = text === '' ? ({ valueType: 'number', value: 1 } as const) : ({ valueType: 'string', value: text } as const);
    positions.stored(organizationId, Array.from({ length: count }, (): StoredReading => ({ sensorId, ...shown, time: 0, position })));
    return position;
  };
  return { positions, live, store, end };
}

describe('live readings', () => {
  it('hand over what was stored of the organization and matters, up to where all is on disk', () => {
    const { positions, live, store } = setUp((sensorId) => sensorId !== 'other');
    const first = store(2);
    const slow = positions.open('org-1');
    store(1, { sensorId: 'other' });
    store(1, { organizationId: 'org-2' });
    store(3);
    expect(live.take()).toMatchObject({ until: slow - 1, readings: { length: 5 } });
    expect(slow - 1).toBe(first);
    const last = store(1, { position: slow });
    expect(live.take().readings.map(({ position }) => position)).toEqual([last]);
    live.close();
    store(1);
    expect(live.take().readings).toEqual([]);
  });

  it('leave out what is too much, until the reader knows up to where it is on disk', async () => {
    const { positions, live, store } = setUp();
    const slow = positions.open('org-1');
    store(30_000);
    store(30_000);
    const left = store(1);
    expect([live.isBehind, live.take().readings.length]).toEqual([true, 30_000]);
    const restarting = live.restart();
    store(1, { position: slow });
    const until = await restarting;
    expect(until).toBeGreaterThanOrEqual(left);
    expect(live.isBehind).toBe(false);
    store(2);
    expect(live.take().readings).toHaveLength(2);
  });

  it('leave out what is too long, not only too many, until some of it was taken', () => {
    const { live, store } = setUp();
    const text = 'x'.repeat(60_000);
    store(60, { text });
    expect(live.take().readings).toHaveLength(60);
    store(60, { text });
    expect(live.isBehind).toBe(false);
    store(60, { text });
    expect([live.isBehind, live.take().readings.length]).toEqual([true, 60]);
  });

  it('keep what comes after the position of the restart', async () => {
    const { positions, live, store } = setUp();
    const slow = positions.open('org-1');
    store(1);
    const restarting = live.restart();
    const later = positions.open('org-1');
    store(1, { position: slow });
    const after = store(1);
    const until = await restarting;
    expect(until).toBeLessThan(later);
    expect(live.take().readings.map(({ position }) => position)).toEqual([after]);
  });

  it('wake who waits for news, with some and at the end', async () => {
    const { live, store, end } = setUp();
    const news = live.news(1_000_000);
    store(1);
    await news;
    await live.news(1_000_000);
    live.take();
    const last = live.news(1_000_000);
    end.abort();
    await last;
    await live.news(1_000_000);
    expect(live.isBehind).toBe(false);
  });
});
