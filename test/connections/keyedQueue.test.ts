import fc from 'fast-check';
import { KeyedQueue } from '../../src/connections/keyedQueue';
import { Outbox } from '../../src/connections/connectors/gateway/outbox';
import { gate } from './fakeEvents';

const SEED = 20_261_120;

describe(`ordered work (seed ${SEED})`, () => {
  it('runs all jobs of a key in order and never exceeds the limit', async () => {
    const jobs = fc.array(fc.record({ key: fc.integer({ min: 0, max: 4 }), turns: fc.integer({ min: 0, max: 5 }) }), {
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(jobs, fc.integer({ min: 1, max: 8 }), async (list, limit) => {
        const work = new KeyedQueue(limit);
        const begun: Record<number, number[]> = {};
        const running = new Set<number>();
        let max = 0;
        let done = 0;
        for (const [at, { key, turns }] of list.entries()) {
          await work.add(String(key), async () => {
            expect(running.has(key)).toBe(false);
            running.add(key);
            max = Math.max(max, running.size);
            (begun[key] ??= []).push(at);
            for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
            running.delete(key);
            done += 1;
          });
        }
        await work.waitUntilIdle();
        expect(done).toBe(list.length);
        expect(max).toBeLessThanOrEqual(limit);
        for (const order of Object.values(begun)) expect(order).toEqual(order.toSorted((a, b) => a - b));
      }),
      { seed: SEED, numRuns: 200 },
    );
  });
});

describe('the outbox', () => {
  it('writes one message at a time and creates it when its turn comes', async () => {
    const written: string[] = [];
    const fixture = gate<void>();
    const outbox = new Outbox<string>(async (message) => {
      written.push(message);
      await fixture.promise;
    });
    let text = 'early';
    const first = outbox.post(() => 'first');
    const second = outbox.post(() => text);
    const unwanted = outbox.post(() => undefined);
    const dropped = outbox.post(() => 'dropped', 'key');
    text = 'late';
    expect([outbox.size, outbox.remove('key'), outbox.remove('key'), outbox.size]).toEqual([3, true, false, 2]);
    fixture.open();
    expect(await Promise.all([first, second, unwanted, dropped])).toEqual([true, true, false, false]);
    expect(written).toEqual(['first', 'late']);
  });

  it('writes queued messages in order and together, and stops until the reader has capacity', async () => {
    const written: number[] = [];
    const fixture = gate<void>();
    const outbox = new Outbox<number>(async (message) => {
      written.push(message);
      await fixture.promise;
    });
    const posted = Array.from({ length: 200 }, (_, n) => outbox.post(() => n));
    expect([written, outbox.size]).toEqual([[0], 199]);
    fixture.open();
    expect(new Set(await Promise.all(posted))).toEqual(new Set([true]));
    expect(written).toEqual(Array.from({ length: 200 }, (_, n) => n));
  });

  it('reports which messages were handed over and which certainly were not when the stream ends', async () => {
    const broken = gate<void>();
    const outbox = new Outbox<string>(async () => await broken.promise.then(() => Promise.reject(new Error('over'))));
    const handed = outbox.post(() => 'handed');
    const waiting = outbox.post(() => 'waiting');
    broken.open();
    expect(await Promise.all([handed, waiting])).toEqual([true, false]);
    expect(await outbox.post(() => 'after')).toBe(false);
  });
});
