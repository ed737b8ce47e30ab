import {
  checkGrowth,
  checkReturn,
  checkUpperBound,
  getSlope,
  sparkline,
  type Point,
} from '../../scripts/soak/analysis';
import { judge } from '../../scripts/soak/judge';
import { Random } from '../../scripts/soak/random';

const SECONDS = 600;
const BOUNDS = { perHour: 10, min: 1.5 };

/** Creates one noisy value per second, with a leak added per second. */
function series(leak: number, { noise = 2, spikes = 0 } = {}): Point[] {
  const random = new Random(7);
  return Array.from({ length: SECONDS }, (_, at) => ({
    at,
    value: 60 + at * leak + random.next() * noise + (random.chance(spikes) ? 200 : 0),
  }));
}

describe('the leak analysis of a soak', () => {
  it('measures the slope, even if a tenth of the values are outliers', () => {
    expect(getSlope(series(0.02, { spikes: 0.1 }))).toBeCloseTo(0.02, 2);
    expect(Math.abs(getSlope(series(0, { spikes: 0.1 })))).toBeLessThan(0.002);
  });

  it.each([
    ['nothing for noise', series(0), true],
    ['nothing for a decrease', series(-0.05), true],
    [
      'nothing for growth during the warm-up',
      series(0).map(({ at, value }) => ({ at, value: value + Math.min(at, 200) })),
      true,
    ],
    ['36 MiB an hour', series(0.01), false],
    [
      'a leak that begins in the middle',
      series(0).map(({ at, value }) => ({ at, value: value + Math.max(0, at - 300) * 0.02 })),
      false,
    ],
  ])('reports: %s', (_, points, ok) => {
    expect(checkGrowth('heap', 'MiB', points, BOUNDS).ok).toBe(ok);
  });

  it('reports nothing that it could not measure', () => {
    expect(checkGrowth('heap', 'MiB', [], BOUNDS)).toMatchObject({ ok: false });
    expect(
      checkGrowth(
        'heap',
        'MiB',
        [
          { at: 1, value: Number.NaN },
          { at: 2, value: Number.NaN },
          { at: 3, value: Number.NaN },
        ],
        BOUNDS,
      ),
    ).toMatchObject({ ok: false });
  });

  it('reports descriptors that are not released, and a log that is not truncated', () => {
    expect(checkReturn('descriptors', 60, 64, 4).ok).toBe(true);
    expect(checkReturn('descriptors', 60, 65, 4).ok).toBe(false);
    expect(checkUpperBound('log', 'MiB', [1, 96], 96).ok).toBe(true);
    expect(checkUpperBound('log', 'MiB', [1, 97], 96).ok).toBe(false);
  });
});

const sample = (at: number) => ({
  at,
  rss: 250,
  own: 180,
  heap: 60,
  lag: 5,
  descriptors: 50,
  threads: 20,
  wal: 10,
  cpu: at * 300,
  starved: 0,
});

describe('a run of a minute', () => {
  const seconds = Array.from({ length: 60 }, (_, at) => at);
  const measured = {
    samples: seconds.map(sample),
    live: seconds.map((at) => ({ at, value: 50 })),
    buffers: seconds.map((at) => ({ at, value: 12 })),
    before: sample(0),
    after: sample(60),
    counters: [{ name: 'reads', done: 100, failed: 0, firstError: '' }],
    errors: [],
  };
  const failed = (changed: Partial<typeof measured>): string[] =>
    judge({ ...measured, ...changed })
      .filter(({ ok }) => !ok)
      .map(({ name }) => name);

  it('passes where nothing grows', () => expect(failed({})).toEqual([]));
  it('fails for objects that stay', () =>
    expect(failed({ live: seconds.map((at) => ({ at, value: 50 + at * 0.4 })) })).toEqual(['live heap']));
  it('fails for buffers that stay, which the heap does not show', () =>
    expect(failed({ buffers: seconds.map((at) => ({ at, value: 12 + at })) })).toEqual(['buffers']));
  it('reports what it did not measure', () =>
    expect(judge({ ...measured, live: [], buffers: [] }).find(({ name }) => name === 'live heap')?.text).toContain(
      'NOT MEASURED',
    ));
});

it('draws its values from the smallest to the largest', () => {
  expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7])).toBe('▁▂▃▄▅▆▇█');
  expect(sparkline([5, 5, 5])).toBe('▁▁▁');
  expect(
    sparkline(
      Array.from({ length: 1000 }, (_, n) => n),
      10,
    ),
  ).toHaveLength(10);
});

function draw(seed: number): number[] {
  const random = new Random(seed);
  return [random.next(), random.gapMs(10), random.next()];
}

it('repeats its random choices by their seed', () => {
  expect(draw(7)).toEqual(draw(7));
  expect(draw(7)).not.toEqual(draw(8));
});
