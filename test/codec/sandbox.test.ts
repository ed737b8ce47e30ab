import type { SandboxOptions } from '../../src/codec';
import { openScriptWorker, shuttingDown } from '../../src/codec/scriptThread';
import { openSandbox, type SandboxFixture } from './sandboxFixture';

const NATIVE_LOOP = 'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)';
const GOOD = 'function encodeDownlink(input) { return [input.data.v]; }';

async function withSandbox(
  options: Parameters<typeof openSandbox>[0],
  work: (fixture: SandboxFixture) => Promise<void>,
): Promise<void> {
  const fixture = openSandbox(options);
  try {
    await work(fixture);
  } finally {
    await fixture.sandbox.stop();
  }
}

const getReason = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    () => 'done',
    (error: { kind: string; reason: string }) => `${error.kind} ${error.reason}`,
  );

/** Returns how often a timer of one millisecond fires while some work runs. */
async function countTimerTicks(work: () => Promise<void>): Promise<number> {
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1), 1);
  await work();
  clearInterval(timer);
  return ticks;
}

describe('a script that hangs', () => {
  it('costs only its own thread: other scripts continue, and a new thread replaces it', async () => {
    // Script threads have a low priority: where other processes use all cores, one may get less than 100 ms of CPU time
    // in a second.
    await withSandbox({ workers: 2, timeoutMs: 30, hardTimeoutMs: 2000 }, async ({ encode, bytes, events }) => {
      await Promise.all([bytes(GOOD), bytes(GOOD)]);
      let ended = false;
      const hangingRun = encode(NATIVE_LOOP, { owner: 'org-2' }).finally(() => (ended = true));
      for (let i = 0; i < 10; i += 1) expect(await bytes(GOOD)).toEqual([7]);
      expect(ended).toBe(false);
      expect((await hangingRun).error).toMatchObject({
        code: 'timeout',
        message: expect.stringContaining('2000 ms') as string,
      });
      expect(events).toEqual([{ event: 'codec.worker_restarted', fields: { reason: 'timed_out', owner: 'org-2' } }]);
      // More scripts hang at once than there are threads, so that each thread is replaced.
      await Promise.all([encode(NATIVE_LOOP), encode(NATIVE_LOOP), encode(NATIVE_LOOP)]);
      expect(await bytes(GOOD)).toEqual([7]);
      expect(events).toHaveLength(4);
    });
  });

  it('limits its owner to one thread afterwards, so that other owners do not wait for its next scripts', async () => {
    await withSandbox({ workers: 2, timeoutMs: 100, hardTimeoutMs: 1000 }, async ({ encode, bytes, events }) => {
      await encode(NATIVE_LOOP, { owner: 'org-2' });
      const hangingRun = Array.from(
        { length: 8 },
        async () => await encode(NATIVE_LOOP, { owner: 'org-2' }).catch(() => undefined),
      );
      for (let lost = 1; lost <= 2; lost += 1) {
        for (let i = 0; i < 5; i += 1) expect(await bytes(GOOD)).toEqual([7]);
        expect(events).toHaveLength(lost);
        await hangingRun[lost - 1];
      }
    });
  });

  it('does not block the event loop, even with four such scripts', async () => {
    await withSandbox({ workers: 4, timeoutMs: 300, hardTimeoutMs: 1000 }, async ({ encode, bytes }) => {
      await bytes(GOOD);
      const hostile = ['for (;;);', NATIVE_LOOP, '/^(a+)+$/.test("a".repeat(50) + "!")', 'for (;;) console.log("x")'];
      const codes: unknown[] = [];
      const ticks = await countTimerTicks(async () => {
        const all = await Promise.all(hostile.map(async (script) => await encode(script)));
        codes.push(...all.map(({ error }) => error?.code));
      });
      expect(codes).toEqual(Array(4).fill('timeout'));
      expect(ticks).toBeGreaterThan(3);
    });
  });

  it('would be detected if it blocked the event loop', async () => {
    const ticks = await countTimerTicks(async () => {
      const until = performance.now() + 400;
      while (performance.now() < until);
      await new Promise((resolve) => setImmediate(resolve));
    });
    expect(ticks).toBeLessThanOrEqual(3);
  });

  it('does not fail the scripts that wait behind it', async () => {
    await withSandbox({ workers: 1, timeoutMs: 50, hardTimeoutMs: 500 }, async ({ encode, bytes }) => {
      const hangingRun = encode(NATIVE_LOOP);
      const behind = Array.from({ length: 5 }, async () => await bytes(GOOD, { owner: 'org-2' }));
      expect(await Promise.all(behind)).toEqual([[7], [7], [7], [7], [7]]);
      expect((await hangingRun).error?.code).toBe('timeout');
    });
  });
});

describe('a script that takes all memory', () => {
  it('releases the memory together with its thread', async () => {
    await withSandbox({ workers: 1 }, async ({ encode, bytes, events }) => {
      for (let i = 0; i < 3; i += 1)
        expect((await encode('var kept = []; for (;;) kept.push([1, 2, 3]);')).error?.code).toBe('out_of_memory');
      expect(await bytes(GOOD)).toEqual([7]);
      expect(events.map(({ event, fields }) => [event, fields])).toEqual(
        Array.from({ length: 3 }, () => ['codec.worker_restarted', { reason: 'corrupted', owner: 'org-1' }]),
      );
    });
  });
});

describe('waiting scripts', () => {
  it('take turns by owner, and run first in, first out within one owner', async () => {
    await withSandbox({ workers: 1 }, async ({ bytes }) => {
      const order: string[] = [];
      const run = async (owner: string, at: number): Promise<void> => {
        await bytes(GOOD, { owner });
        order.push(`${owner}${at}`);
      };
      await Promise.all([run('a', 1), run('a', 2), run('a', 3), run('a', 4), run('b', 1), run('b', 2), run('c', 1)]);
      expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
    });
  });

  it('are removed when their caller cancels, while running scripts continue', async () => {
    const ready = Promise.withResolvers<void>();
    const openWorker: SandboxOptions['openWorker'] = (start) =>
      openScriptWorker(start).once('message', () => ready.resolve());
    await withSandbox({ workers: 1, openWorker }, async ({ sandbox, bytes }) => {
      await ready.promise;
      const [first, second] = [new AbortController(), new AbortController()];
      const request = { owner: 'a', script: GOOD, data: { v: 7 }, fPort: undefined };
      const runs = sandbox.encode(request, first.signal);
      const [waits, kept] = [sandbox.encode(request, second.signal), bytes(GOOD, { owner: 'a' })];
      first.abort(new Error('gone'));
      second.abort(new Error('gone too'));
      await expect(waits).rejects.toThrow('gone too');
      expect((await runs).error).toBeUndefined();
      expect(await kept).toEqual([7]);
      await expect(sandbox.encode(request, second.signal)).rejects.toThrow('gone too');
    });
  });

  it('release their place when they are cancelled', async () => {
    await withSandbox({ workers: 1 }, async ({ sandbox, encode }) => {
      const controller = new AbortController();
      const request = { owner: 'a', script: GOOD, data: 1, fPort: undefined };
      const waiting = Array.from({ length: 256 }, () => getReason(sandbox.encode(request, controller.signal)));
      expect(await getReason(encode(GOOD, { owner: 'a' }))).toBe('exhausted codec_queue_full');
      controller.abort(shuttingDown());
      expect(new Set(await Promise.all(waiting))).toEqual(new Set(['unavailable shutting_down']));
      expect(await getReason(encode(GOOD, { owner: 'a' }))).toBe('done');
    });
  });

  it('are limited per owner and in total, and later ones are rejected with a retry delay', async () => {
    await withSandbox({ workers: 1 }, async ({ encode, sandbox }) => {
      const waiting = ['a', 'b', 'c', 'd'].map((owner) =>
        Array.from({ length: 256 }, () => getReason(encode(GOOD, { owner }))),
      );
      expect(await getReason(encode(GOOD, { owner: 'a' }))).toBe('exhausted codec_queue_full');
      expect(await getReason(encode(GOOD, { owner: 'e' }))).toBe('exhausted codec_queue_full');
      await expect(encode(GOOD, { owner: 'a' })).rejects.toMatchObject({ retryAfterMs: 1000 });
      await sandbox.stop();
      expect(new Set(await Promise.all(waiting.flat()))).toEqual(new Set(['unavailable shutting_down']));
    });
  });

  it('are limited by their size, too', async () => {
    await withSandbox({ workers: 1 }, async ({ encode, sandbox }) => {
      const large = `${GOOD}//${'x'.repeat(250_000)}`;
      const outcomes = Array.from({ length: 70 }, () => getReason(encode(large)));
      await sandbox.stop();
      const errorCodes = await Promise.all(outcomes);
      expect(errorCodes.filter((reason) => reason === 'exhausted codec_queue_full')).toHaveLength(3);
    });
  });
});

describe('stop', () => {
  it('ends running scripts, rejects waiting and later ones, and may be called twice', async () => {
    const { sandbox, encode, bytes } = openSandbox({ workers: 2 });
    await bytes(GOOD);
    const running = [getReason(encode('for (;;);')), getReason(encode(NATIVE_LOOP))];
    const waiting = getReason(encode(GOOD));
    await Promise.all([sandbox.stop(), sandbox.stop()]);
    expect(await Promise.all([...running, waiting])).toEqual(Array(3).fill('unavailable shutting_down'));
    expect(await getReason(encode(GOOD))).toBe('unavailable shutting_down');
    await sandbox.stop();
  });

  it('works before a thread is ready', async () => {
    const { sandbox } = openSandbox({ workers: 3 });
    await sandbox.stop();
  });
});
