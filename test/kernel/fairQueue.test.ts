import fc from 'fast-check';
import { FairQueue } from '../../src/kernel/fairQueue';

const SEED = 20_261_121;
const RUNS = { seed: SEED, numRuns: 500 };

/** A simple model of the waiting items, by owner. */
class QueueModel {
  private readonly rows = new Map<string, string[]>();
  private readonly skipped = new Map<string, number>();

  all(): string[] {
    return [...this.rows.values()].flat();
  }

  /** Adds an item; false if the queue of the owner or the whole queue is full. */
  add(owner: string, value: string): boolean {
    const row = this.rows.get(owner) ?? [];
    const fits = row.length < 5 && this.all().length < 12;
    if (fits) this.rows.set(owner, row.concat(value));
    return fits;
  }

  /**
   * Removes the served item, which must be the first of its owner. Returns the largest number of consecutive times that
   * any waiting owner was skipped.
   */
  removeServed(value: string | undefined): number {
    expect(value === undefined).toBe(this.all().length === 0);
    const from = value?.charAt(0) ?? '';
    expect(value).toBe(this.rows.get(from)?.[0]);
    const isSkipped = (owner: string, row: readonly string[]): boolean => owner !== from && row.length > 0;
    for (const [owner, row] of this.rows)
      this.skipped.set(owner, isSkipped(owner, row) ? (this.skipped.get(owner) ?? 0) + 1 : 0);
    if (value !== undefined) this.rows.get(from)?.shift();
    return Math.max(0, ...this.skipped.values());
  }
}

const notA = (owner: string): boolean => owner !== 'a';

describe('the fair queue', () => {
  it(`serves every owner within one round, each in order, and loses nothing (seed ${SEED})`, () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.constantFrom('a', 'b', 'c', 'd')), { maxLength: 60 }), (steps) => {
        const queue = new FairQueue<string>({
          perOwner: { items: 5, weight: 1000 },
          total: { items: 12, weight: 1000 },
        });
        const model = new QueueModel();
        steps.forEach((owner, at) => {
          if (owner !== null) expect(queue.add(owner, `${owner}${at}`, 1)).toBe(model.add(owner, `${owner}${at}`));
          else expect(model.removeServed(queue.removeNext())).toBeLessThan(4);
        });
        expect([...queue.removeAll()].toSorted()).toEqual(model.all().toSorted());
      }),
      RUNS,
    );
  });

  it('keeps the position of an owner that may not run now', () => {
    const queue = new FairQueue<string>({ perOwner: { items: 9, weight: 9 }, total: { items: 9, weight: 9 } });
    for (const value of ['a1', 'a2', 'b1', 'c1']) queue.add(value.charAt(0), value, 1);
    expect([
      queue.removeNext(notA),
      queue.removeNext(),
      queue.removeNext(notA),
      queue.removeNext(notA),
      queue.removeNext(),
    ]).toEqual(['b1', 'a1', 'c1', undefined, 'a2']);
  });

  it('releases the place and the weight of a removed item', () => {
    const queue = new FairQueue<string>({ perOwner: { items: 2, weight: 10 }, total: { items: 2, weight: 10 } });
    expect([queue.add('a', 'a1', 6), queue.add('a', 'a2', 4), queue.add('a', 'a3', 1)]).toEqual([true, true, false]);
    expect([queue.remove('a', 'a1'), queue.remove('a', 'a1'), queue.remove('b', 'a2')]).toEqual([true, false, false]);
    expect([queue.add('b', 'b1', 6), queue.remove('a', 'a2'), queue.removeNext(), queue.removeNext()]).toEqual([
      true,
      true,
      'b1',
      undefined,
    ]);
  });

  it('limits the weight per owner and in total, and releases it again', () => {
    const queue = new FairQueue<number>({ perOwner: { items: 9, weight: 10 }, total: { items: 9, weight: 15 } });
    expect([
      queue.add('a', 1, 6),
      queue.add('a', 2, 5),
      queue.add('a', 3, 4),
      queue.add('b', 4, 6),
      queue.add('b', 5, 5),
    ]).toEqual([true, false, true, false, true]);
    expect([
      queue.removeNext(),
      queue.add('a', 6, 6),
      queue.removeNext(),
      queue.removeNext(),
      queue.removeNext(),
      queue.removeNext(),
    ]).toEqual([1, true, 5, 3, 6, undefined]);
  });
});
