import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { SandboxOptions } from '../../src/codec';
import { openScriptWorker, ScriptThread, type ThreadEndReason, type WorkerOpener } from '../../src/codec/scriptThread';
import { openSandbox } from './sandboxFixture';

const GOOD = 'function encodeDownlink(input) { return [input.data.v]; }';
const NOTHING = new WebAssembly.Module(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
const READY =
  'require("node:worker_threads").parentPort.postMessage({ kind: "ready", systemThreadId: undefined, cpuMs: 0 });';
const BREAKS = `${READY} require("node:worker_threads").parentPort.on("message", () => process.exit(3));`;
const REFUSED = { kind: 'unavailable', reason: 'codec_unavailable', retryAfterMs: 1000 };

const program = (code: string) => (): Worker => new Worker(code, { eval: true });
const refuse: WorkerOpener = () => {
  throw new Error('EAGAIN');
};

/** Runs a thread with a program of the test, and returns how it ended and why. */
async function getEnd(
  options: ConstructorParameters<typeof ScriptThread>[2],
): Promise<[ThreadEndReason | 'ready', string]> {
  return await new Promise((resolve) => {
    const start = {
      engine: NOTHING,
      preludes: { encoder: '', decoder: '', encoding: '', buffer: '', require: '' },
      limits: { timeoutMs: 100, hardTimeoutMs: 1000 },
    };
    const onEnd = (_thread: ScriptThread, reason: ThreadEndReason, cause: unknown): void =>
      resolve([reason, String(cause)]);
    expect(new ScriptThread(start, { onReady: () => resolve(['ready', '']), onEnd }, options).isIdle).toBe(false);
  });
}

describe('a thread that cannot start', () => {
  it('reports the reason', async () => {
    expect(await getEnd({})).toEqual(['not_started', expect.stringMatching(/Error/) as string]);
  });

  it('is given up when it never becomes ready', async () => {
    expect(await getEnd({ open: program('setInterval(() => {}, 1000);'), startTimeoutMs: 50 })).toEqual([
      'not_started',
      'Error: the thread was not ready after 50 ms',
    ]);
  });
});

describe('a sandbox that cannot start threads', () => {
  it.each<[string, WorkerOpener]>([
    ['because the machine cannot start one', refuse],
    ['because each of them exits at once', program('process.exit(3)')],
  ])('rejects a script at once and runs it when a thread is available: %s', async (_why, failing) => {
    let open = failing;
    const openWorker: WorkerOpener = (start) => open(start);
    const { sandbox, events, encode, bytes } = openSandbox({ workers: 2, openWorker });
    while (events.length < 2) await yieldToEventLoop();
    await expect(encode(GOOD)).rejects.toMatchObject(REFUSED);
    expect(events[0]).toMatchObject({ event: 'codec.worker_start_failed', fields: { retry_ms: 200 } });
    open = openScriptWorker;
    let given: readonly number[] | undefined;
    for (; given === undefined; await yieldToEventLoop()) given = await bytes(GOOD).catch(() => undefined);
    expect(given).toEqual([7]);
    await sandbox.stop();
  });

  it('rejects waiting scripts and survives when the script that used the last thread ends', async () => {
    let isLast = false;
    const openWorker: WorkerOpener = (start) => {
      if (isLast) throw new Error('EAGAIN');
      isLast = true;
      return openScriptWorker(start);
    };
    const { sandbox, events, encode } = openSandbox({ workers: 1, openWorker });
    const greedy = encode('var kept = []; for (;;) kept.push(new Uint8Array(1e6));');
    const waiting = encode(GOOD, { owner: 'org-2' });
    await expect(waiting).rejects.toMatchObject(REFUSED);
    expect((await greedy).error?.code).toBe('out_of_memory');
    await expect(encode(GOOD)).rejects.toMatchObject(REFUSED);
    expect(events.map(({ event }) => event)).toEqual(['codec.worker_restarted', 'codec.worker_start_failed']);
    await sandbox.stop();
  });
});

describe('an owner that lost a thread', () => {
  it('does not wait for the replacement when it cannot start', async () => {
    let opened = 0;
    const openWorker: WorkerOpener = (start) => (opened++ < 2 ? openScriptWorker(start) : program('process.exit(3)')());
    const { sandbox, events, encode, bytes } = openSandbox({ workers: 2, openWorker });
    const greedy = 'var kept = []; for (;;) kept.push(new Uint8Array(1e6));';
    expect((await encode(greedy)).error?.code).toBe('out_of_memory');
    expect(await bytes(GOOD)).toEqual([7]);
    expect(events[0]).toMatchObject({
      event: 'codec.worker_restarted',
      fields: { reason: 'corrupted', owner: 'org-1' },
    });
    await sandbox.stop();
  });
});

it('does not end the next script at the deadline of one whose result came late', async () => {
  const { sandbox, events, bytes } = openSandbox({ workers: 1, timeoutMs: 200, hardTimeoutMs: 300 });
  await bytes(GOOD);
  await yieldToEventLoop(); // from here, timers run before messages are received
  const results = [bytes(GOOD), bytes(GOOD)];
  for (const end = performance.now() + 400; performance.now() < end;); // the result waits until after the deadline
  expect(await Promise.all(results)).toEqual([[7], [7]]);
  expect(events).toEqual([]);
  await sandbox.stop();
});

describe('a thread that crashes', () => {
  it('fails only its own script', async () => {
    const openers: WorkerOpener[] = [program(BREAKS)];
    const options: Partial<SandboxOptions> = {
      workers: 1,
      openWorker: (start) => (openers.shift() ?? openScriptWorker)(start),
    };
    const { sandbox, events, encode, bytes } = openSandbox(options);
    expect((await encode(GOOD)).error).toMatchObject({
      code: 'runtime_error',
      message: expect.stringContaining('crashed') as string,
    });
    expect(await bytes(GOOD)).toEqual([7]);
    expect(events).toMatchObject([{ event: 'codec.worker_restarted', fields: { reason: 'crashed' } }]);
    await sandbox.stop();
  });
});
