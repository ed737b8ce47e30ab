import fc from 'fast-check';
import {
  addSample,
  addSummary,
  toHour,
  createSummary,
  computeTimeWeightedAverage,
  type NumberSummary,
} from '../../src/telemetry/readings/hourSummary';
import { HOUR_MS } from '../../src/kernel/timeUnits';

const SEED = 20_261_121;
const RUNS = { seed: SEED, numRuns: 500 };

interface Sample {
  readonly time: number;
  readonly value: number;
}

// The values are small integers, so that sums are exact in any order of addition.
const samples = fc
  .array(fc.record({ time: fc.integer({ min: -50_000, max: 50_000 }), value: fc.integer({ min: -100, max: 100 }) }), {
    minLength: 1,
    maxLength: 40,
  })
  .map((list) => list.toSorted((one, other) => one.time - other.time));

function sumUp(list: readonly Sample[]): NumberSummary {
  const [first, ...others] = list;
  if (!first) throw new Error('nothing to sum up');
  const summary = createSummary(first.time, first.value);
  for (const { time, value } of others) addSample(summary, time, value);
  return summary;
}

/** Computes the average one millisecond at a time. */
function computeAverage(list: readonly Sample[], carried: number | undefined, from: number, until: number): number {
  let held = carried;
  let total = 0;
  let span = 0;
  for (let at = from; at < until; at += 1) {
    held = list.findLast(({ time }) => time === at)?.value ?? held;
    if (held === undefined) continue;
    total += held;
    span += 1;
  }
  return span === 0 ? (list.at(-1)?.value ?? Number.NaN) : total / span;
}

describe(`hour summaries (seed ${SEED})`, () => {
  it('are the same whether computed at once or merged from parts', () => {
    fc.assert(
      fc.property(samples, fc.array(fc.nat(40), { maxLength: 6 }), (list, cuts) => {
        const edges = [0, ...cuts.map((cut) => cut % list.length), list.length].toSorted((one, other) => one - other);
        const parts = edges
          .slice(1)
          .flatMap((edge, at) => (edge > (edges[at] as number) ? [sumUp(list.slice(edges[at], edge))] : []));
        const merged = { ...(parts[0] as NumberSummary) };
        for (const part of parts.slice(1)) addSummary(merged, part);
        expect(merged).toEqual(sumUp(list));
      }),
      RUNS,
    );
  });

  it('contain exactly what counting each reading gives', () => {
    fc.assert(
      fc.property(samples, (list) => {
        const values = list.map(({ value }) => value);
        const { count, sum, min, max, first, last, firstTime, lastTime } = sumUp(list);
        expect({ count, sum, min, max }).toEqual({
          count: list.length,
          sum: values.reduce((one, other) => one + other, 0),
          min: Math.min(...values),
          max: Math.max(...values),
        });
        expect([
          { time: firstTime, value: first },
          { time: lastTime, value: last },
        ]).toEqual([list[0], list.at(-1)]);
      }),
      RUNS,
    );
  });

  it('give the same time-weighted average as a walk over every millisecond', () => {
    const few = fc
      .array(fc.record({ time: fc.integer({ min: 0, max: 99 }), value: fc.integer({ min: -100, max: 100 }) }), {
        minLength: 1,
        maxLength: 12,
      })
      .map((list) => list.toSorted((one, other) => one.time - other.time));
    fc.assert(
      fc.property(
        few,
        fc.option(fc.integer({ min: -100, max: 100 }), { nil: undefined }),
        fc.nat(20),
        fc.nat(20),
        (list, carried, before, after) => {
          const [from, until] = [(list[0] as Sample).time - before, (list.at(-1) as Sample).time + after];
          expect(computeTimeWeightedAverage(sumUp(list), carried, from, until)).toBeCloseTo(
            computeAverage(list, carried, from, until),
            9,
          );
        },
      ),
      RUNS,
    );
  });

  it('stay finite for all values', () => {
    const extreme = [Number.MAX_VALUE, Number.MAX_VALUE, -Number.MAX_VALUE, -Number.MAX_VALUE, -Number.MAX_VALUE].map(
      (value, at) => ({ time: at * 1000, value }),
    );
    const summary = sumUp(extreme);
    addSummary(summary, { ...sumUp(extreme), firstTime: 9000, lastTime: 13_000 });
    const average = computeTimeWeightedAverage(summary, Number.MAX_VALUE, -5000, 20_000);
    expect([...Object.values(summary), average].filter((value) => !Number.isFinite(value))).toEqual([]);
  });

  it('use hours of UTC, before 1970 too', () => {
    expect([toHour(0), toHour(HOUR_MS - 1), toHour(HOUR_MS), toHour(-1)]).toEqual([0, 0, HOUR_MS, -HOUR_MS]);
  });
});
