import { setImmediate as othersTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { SandboxOptions } from '../../src/codec';
import { openScriptWorker, ScriptThread, type ThreadEnd, type WorkerOpener } from '../../src/codec/scriptThread';
import { openSandbox } from './sandboxRoom';

const GOOD = 'function encodeDownlink(input) { return [input.data.v]; }';
const NOTHING = new WebAssembly.Module(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
const READY = 'require("node:worker_threads").parentPort.postMessage({ kind: "ready", tid: undefined, cpuMs: 0 });';
const BREAKS = `${READY} require("node:worker_threads").parentPort.on("message", () => process.exit(3));`;
const REFUSED = { kind: 'unavailable', reason: 'sandbox_unavailable', retryAfterMs: 1000 };

const program = (code: string) => (): Worker => new Worker(code, { eval: true });
const refuse: WorkerOpener = () => {
  throw new Error('EAGAIN');
};

/** How a thread ended that was given a program of the test's, and why. */
async function endOf(options: ConstructorParameters<typeof ScriptThread>[2]): Promise<[ThreadEnd | 'ready', string]> {
  return await new Promise((resolve) => {
    const start = { engine: NOTHING, preludes: { encoder: '', decoder: '', encoding: '', buffer: '', require: '' }, limits: { scriptMs: 100, hardMs: 1000 } };
    const onEnd = (_thread: ScriptThread, reason: ThreadEnd, cause: unknown): void => resolve([reason, String(cause)]);
    expect(new ScriptThread(start, { onReady: () => resolve(['ready', '']), onEnd }, options).isIdle).toBe(false);
  });
}

describe('a thread that cannot start', () => {
  it('says so', async () => {
    expect(await endOf({})).toEqual(['not_started', expect.stringMatching(/Error/) as string]);
  });

  it('is given up when it is never ready', async () => {
    expect(await endOf({ open: program('setInterval(() => {}, 1000);'), startMs: 50 })).toEqual(['not_started', 'Error: the thread was not ready after 50 ms']);
  });
});

describe('where no thread can be started', () => {
  it.each<[string, WorkerOpener]>([
    ['because the machine has none to give', refuse],
    ['because each of them ends at once', program('process.exit(3)')],
  ])('a script is refused at once, and run when there is one: %s', async (_why, failing) => {
    let open = failing;
    const openWorker: WorkerOpener = (start) => open(start);
    const { sandbox, events, encode, bytes } = openSandbox({ workers: 2, openWorker });
    while (events.length < 2) await othersTurn();
    await expect(encode(GOOD)).rejects.toMatchObject(REFUSED);
    expect(events[0]).toMatchObject({ event: 'codec.thread_not_started', fields: { retry_ms: 200 } });
    open = openScriptWorker;
    let given: readonly number[] | undefined;
    for (; given === undefined; await othersTurn()) given = await bytes(GOOD).catch(() => undefined);
    expect(given).toEqual([7]);
    await sandbox.stop();
  });

  it('what waits is refused, and the server lives: the script that took the last thread cannot end it', async () => {
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
    expect(events.map(({ event }) => event)).toEqual(['codec.thread_replaced', 'codec.thread_not_started']);
    await sandbox.stop();
  });
});

describe('an owner that lost a thread', () => {
  it('does not wait for the one in its place when that cannot start', async () => {
    let opened = 0;
    const openWorker: WorkerOpener = (start) => (opened++ < 2 ? openScriptWorker(start) : program('process.exit(3)')());
    const { sandbox, events, encode, bytes } = openSandbox({ workers: 2, openWorker });
    const greedy = 'var kept = []; for (;;) kept.push(new Uint8Array(1e6));';
    expect((await encode(greedy)).error?.code).toBe('out_of_memory');
    expect(await bytes(GOOD)).toEqual([7]);
    expect(events[0]).toMatchObject({ event: 'codec.thread_replaced', fields: { reason: 'spoiled', owner: 'org-1' } });
    await sandbox.stop();
  });
});

describe('a thread that breaks', () => {
  it('costs its script only', async () => {
    const openers: WorkerOpener[] = [program(BREAKS)];
    const options: Partial<SandboxOptions> = { workers: 1, openWorker: (start) => (openers.shift() ?? openScriptWorker)(start) };
    const { sandbox, events, encode, bytes } = openSandbox(options);
    expect((await encode(GOOD)).error).toMatchObject({ code: 'runtime_error', message: expect.stringContaining('broke') as string });
    expect(await bytes(GOOD)).toEqual([7]);
    expect(events).toMatchObject([{ event: 'codec.thread_replaced', fields: { reason: 'crashed' } }]);
    await sandbox.stop();
  });
});
