import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { SandboxOptions } from '../../src/codec';
import { openScriptWorker, shuttingDown } from '../../src/codec/scriptThread';
import { openSandbox, type SandboxRoom } from './sandboxRoom';

const NATIVE_LOOP = 'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)';
const GOOD = 'function encodeDownlink(input) { return [input.data.v]; }';

async function inRoom(options: Parameters<typeof openSandbox>[0], work: (room: SandboxRoom) => Promise<void>): Promise<void> {
  const room = openSandbox(options);
  try {
    await work(room);
  } finally {
    await room.sandbox.stop();
  }
}

const reasonOf = async (promise: Promise<unknown>): Promise<unknown> => await promise.then(() => 'done', (error: { kind: string; reason: string }) => `${error.kind} ${error.reason}`);

// What a busy machine may do to this process stays below it.
const STALL_MS = 350;

const turn = async (): Promise<void> => await new Promise((resolve) => setTimeout(resolve, 30));

/** The longest time, in milliseconds, for which the event loop stood still during some work. */
async function longestStall(work: () => Promise<void>): Promise<number> {
  const delays = monitorEventLoopDelay({ resolution: 10 });
  delays.enable();
  await work();
  delays.disable();
  return delays.max / 1e6;
}

describe('a script that hangs', () => {
  it('costs its own thread only: others go on meanwhile, and a new thread takes its place', async () => {
    await inRoom({ workers: 2, scriptMs: 100, hardMs: 1000 }, async ({ encode, bytes, events }) => {
      await Promise.all([bytes(GOOD), bytes(GOOD)]);
      let ended = false;
      const hung = encode(NATIVE_LOOP, { owner: 'org-2' }).finally(() => (ended = true));
      for (let i = 0; i < 10; i += 1) expect(await bytes(GOOD)).toEqual([7]);
      expect(ended).toBe(false);
      expect((await hung).error).toMatchObject({ code: 'timeout', message: expect.stringContaining('1000 ms') as string });
      expect(events).toEqual([{ event: 'codec.thread_replaced', fields: { reason: 'hung', owner: 'org-2' } }]);
      // More hang at once than there are threads, so that each of them is replaced.
      await Promise.all([encode(NATIVE_LOOP), encode(NATIVE_LOOP), encode(NATIVE_LOOP)]);
      expect(await bytes(GOOD)).toEqual([7]);
      expect(events).toHaveLength(4);
    });
  });

  it('holds one thread at a time from then on, so that nobody else waits for its next ones', async () => {
    await inRoom({ workers: 2, scriptMs: 100, hardMs: 1000 }, async ({ encode, bytes, events }) => {
      await encode(NATIVE_LOOP, { owner: 'org-2' });
      const hung = Array.from({ length: 8 }, async () => await encode(NATIVE_LOOP, { owner: 'org-2' }).catch(() => undefined));
      for (let lost = 1; lost <= 2; lost += 1) {
        for (let i = 0; i < 5; i += 1) expect(await bytes(GOOD)).toEqual([7]);
        expect(events).toHaveLength(lost);
        await hung[lost - 1];
      }
    });
  });

  it('leaves the event loop alone, even four of them', async () => {
    await inRoom({ workers: 4, scriptMs: 300, hardMs: 1000 }, async ({ encode, bytes }) => {
      await bytes(GOOD);
      const hostile = ['for (;;);', NATIVE_LOOP, '/^(a+)+$/.test("a".repeat(50) + "!")', 'for (;;) console.log("x")'];
      const codes: unknown[] = [];
      const stall = await longestStall(async () => {
        const all = await Promise.all(hostile.map(async (script) => await encode(script)));
        codes.push(...all.map(({ error }) => error?.code));
      });
      expect(codes).toEqual(Array(4).fill('timeout'));
      expect(stall).toBeLessThan(STALL_MS);
    });
  });

  it('would be seen if it did not', async () => {
    const stall = await longestStall(async () => {
      await turn();
      const until = performance.now() + 400;
      while (performance.now() < until);
      await turn();
    });
    expect(stall).toBeGreaterThan(STALL_MS);
  });

  it('loses nobody who waits behind it', async () => {
    await inRoom({ workers: 1, scriptMs: 50, hardMs: 500 }, async ({ encode, bytes }) => {
      const hung = encode(NATIVE_LOOP);
      const behind = Array.from({ length: 5 }, async () => await bytes(GOOD, { owner: 'org-2' }));
      expect(await Promise.all(behind)).toEqual([[7], [7], [7], [7], [7]]);
      expect((await hung).error?.code).toBe('timeout');
    });
  });
});

describe('a script that takes all memory', () => {
  it('gives it back with its thread', async () => {
    await inRoom({ workers: 1 }, async ({ encode, bytes, events }) => {
      for (let i = 0; i < 3; i += 1) expect((await encode('var kept = []; for (;;) kept.push([1, 2, 3]);')).error?.code).toBe('out_of_memory');
      expect(await bytes(GOOD)).toEqual([7]);
      expect(events.map(({ event, fields }) => [event, fields])).toEqual(Array.from({ length: 3 }, () => ['codec.thread_replaced', { reason: 'spoiled', owner: 'org-1' }]));
    });
  });
});

describe('those who wait', () => {
  it('take turns by owner, first in first out within one', async () => {
    await inRoom({ workers: 1 }, async ({ bytes }) => {
      const order: string[] = [];
      const run = async (owner: string, at: number): Promise<void> => {
        await bytes(GOOD, { owner });
        order.push(`${owner}${at}`);
      };
      await Promise.all([run('a', 1), run('a', 2), run('a', 3), run('a', 4), run('b', 1), run('b', 2), run('c', 1)]);
      expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
    });
  });

  it('leave with whoever asked; what runs goes on', async () => {
    const ready = Promise.withResolvers<void>();
    const openWorker: SandboxOptions['openWorker'] = (start) => openScriptWorker(start).once('message', () => ready.resolve());
    await inRoom({ workers: 1, openWorker }, async ({ sandbox, bytes }) => {
      await ready.promise;
      const [first, second] = [new AbortController(), new AbortController()];
      const request = { owner: 'a', script: GOOD, data: { v: 7 }, fPort: undefined };
      const runs = sandbox.encode(request, first.signal);
      const [waits, stays] = [sandbox.encode(request, second.signal), bytes(GOOD, { owner: 'a' })];
      first.abort(new Error('gone'));
      second.abort(new Error('gone too'));
      await expect(waits).rejects.toThrow('gone too');
      expect((await runs).error).toBeUndefined();
      expect(await stays).toEqual([7]);
      await expect(sandbox.encode(request, second.signal)).rejects.toThrow('gone too');
    });
  });

  it('free their place when they leave', async () => {
    await inRoom({ workers: 1 }, async ({ sandbox, encode }) => {
      const gone = new AbortController();
      const request = { owner: 'a', script: GOOD, data: 1, fPort: undefined };
      const waiting = Array.from({ length: 256 }, () => reasonOf(sandbox.encode(request, gone.signal)));
      expect(await reasonOf(encode(GOOD, { owner: 'a' }))).toBe('exhausted sandbox_busy');
      gone.abort(shuttingDown());
      expect(new Set(await Promise.all(waiting))).toEqual(new Set(['unavailable shutting_down']));
      expect(await reasonOf(encode(GOOD, { owner: 'a' }))).toBe('done');
    });
  });

  it('are bounded by owner and in all; whoever comes later is told to try again', async () => {
    await inRoom({ workers: 1 }, async ({ encode, sandbox }) => {
      const waiting = ['a', 'b', 'c', 'd'].map((owner) => Array.from({ length: 256 }, () => reasonOf(encode(GOOD, { owner }))));
      expect(await reasonOf(encode(GOOD, { owner: 'a' }))).toBe('exhausted sandbox_busy');
      expect(await reasonOf(encode(GOOD, { owner: 'e' }))).toBe('exhausted sandbox_busy');
      await expect(encode(GOOD, { owner: 'a' })).rejects.toMatchObject({ retryAfterMs: 1000 });
      await sandbox.stop();
      expect(new Set(await Promise.all(waiting.flat()))).toEqual(new Set(['unavailable shutting_down']));
    });
  });

  it('are bounded by what they hold, too', async () => {
    await inRoom({ workers: 1 }, async ({ encode, sandbox }) => {
      const large = `${GOOD}//${'x'.repeat(250_000)}`;
      const outcomes = Array.from({ length: 70 }, () => reasonOf(encode(large)));
      await sandbox.stop();
      const said = await Promise.all(outcomes);
      expect(said.filter((reason) => reason === 'exhausted sandbox_busy')).toHaveLength(3);
    });
  });
});

describe('stop', () => {
  it('ends what runs, refuses what waits and what comes later, and may be called twice', async () => {
    const { sandbox, encode, bytes } = openSandbox({ workers: 2 });
    await bytes(GOOD);
    const running = [reasonOf(encode('for (;;);')), reasonOf(encode(NATIVE_LOOP))];
    const waiting = reasonOf(encode(GOOD));
    await Promise.all([sandbox.stop(), sandbox.stop()]);
    expect(await Promise.all([...running, waiting])).toEqual(Array(3).fill('unavailable shutting_down'));
    expect(await reasonOf(encode(GOOD))).toBe('unavailable shutting_down');
    await sandbox.stop();
  });

  it('works before a thread is ready', async () => {
    const { sandbox } = openSandbox({ workers: 3 });
    await sandbox.stop();
  });
});
