import fc from 'fast-check';
import { OrderedWork } from '../../src/connections/orderedWork';
import { Outbox } from '../../src/connections/connectors/gateway/outbox';
import { gate } from './fakeEvents';

const SEED = 20_261_120;

describe(`ordered work (seed ${SEED})`, () => {
  it('runs the jobs of a key in order, never more than the limit, and all of them', async () => {
    const jobs = fc.array(fc.record({ key: fc.integer({ min: 0, max: 4 }), turns: fc.integer({ min: 0, max: 5 }) }), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(jobs, fc.integer({ min: 1, max: 8 }), async (list, limit) => {
        const work = new OrderedWork(limit);
        const begun: Record<number, number[]> = {};
        const running = new Set<number>();
        let most = 0;
        let done = 0;
        for (const [at, { key, turns }] of list.entries()) {
          await work.add(String(key), async () => {
            expect(running.has(key)).toBe(false);
            running.add(key);
            most = Math.max(most, running.size);
            (begun[key] ??= []).push(at);
            for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
            running.delete(key);
            done += 1;
          });
        }
        await work.idle();
        expect(done).toBe(list.length);
        expect(most).toBeLessThanOrEqual(limit);
        for (const order of Object.values(begun)) expect(order).toEqual(order.toSorted((a, b) => a - b));
      }),
      { seed: SEED, numRuns: 200 },
    );
  });
});

describe('the outbox', () => {
  it('writes one message after another, made when its turn comes', async () => {
    const written: string[] = [];
    const room = gate<void>();
    const outbox = new Outbox<string>(async (message) => {
      written.push(message);
      await room.promise;
    });
    let text = 'early';
    const first = outbox.post(() => 'first');
    const second = outbox.post(() => text);
    const unwanted = outbox.post(() => undefined);
    const dropped = outbox.post(() => 'dropped', 'key');
    text = 'late';
    expect([outbox.size, outbox.drop('key'), outbox.drop('key'), outbox.size]).toEqual([3, true, false, 2]);
    room.open();
    expect(await Promise.all([first, second, unwanted, dropped])).toEqual([true, true, false, false]);
    expect(written).toEqual(['first', 'late']);
  });

  it('writes what has gathered in order, together, and no more until the reader has room', async () => {
    const written: number[] = [];
    const room = gate<void>();
    const outbox = new Outbox<number>(async (message) => {
      written.push(message);
      await room.promise;
    });
    const posted = Array.from({ length: 200 }, (_, n) => outbox.post(() => n));
    expect([written, outbox.size]).toEqual([[0], 199]);
    room.open();
    expect(new Set(await Promise.all(posted))).toEqual(new Set([true]));
    expect(written).toEqual(Array.from({ length: 200 }, (_, n) => n));
  });

  it('tells what was handed over and what provably was not, when the stream is over', async () => {
    const broken = gate<void>();
    const outbox = new Outbox<string>(async () => await broken.promise.then(() => Promise.reject(new Error('over'))));
    const handed = outbox.post(() => 'handed');
    const waiting = outbox.post(() => 'waiting');
    broken.open();
    expect(await Promise.all([handed, waiting])).toEqual([true, false]);
    expect(await outbox.post(() => 'after')).toBe(false);
  });
});
