import { Worker } from 'node:worker_threads';
import type { SandboxOptions } from '../../src/codec';
import { openScriptWorker } from '../../src/codec/scriptThread';
import { getThreadCpuTime } from '../../src/codec/threadCpuTime';
import { openSandbox, type SandboxFixture } from './sandboxFixture';

const NATIVE_LOOP = 'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)';
const LOOP = 'for (;;);';
const GOOD = 'function encodeDownlink(input) { return [input.data.v]; }';
// No machine leaves a script without CPU time for ten seconds.
const BUSY = { timeoutMs: 10_000, hardTimeoutMs: 1000 };
const IDLE = { timeoutMs: 50, hardTimeoutMs: 2000 };
const onLinux = process.platform === 'linux' ? it : it.skip;

async function withSandbox<T>(
  options: Partial<SandboxOptions>,
  work: (fixture: SandboxFixture) => Promise<T>,
): Promise<T> {
  const fixture = openSandbox({ workers: 1, ...options });
  try {
    return await work(fixture);
  } finally {
    await fixture.sandbox.stop();
  }
}

describe('the blame for a stopped script', () => {
  it('falls on a script that computed for too long', async () => {
    const result = await withSandbox(IDLE, async ({ encode }) => await encode(LOOP));
    expect(result).toMatchObject({
      isServerFault: false,
      error: {
        code: 'timeout',
        message: 'the script used more than 50 ms of CPU time: check it for an endless loop',
        lineNumber: 1,
      },
    });
  });

  it('does not fall on a script that was denied CPU time', async () => {
    const result = await withSandbox(BUSY, async ({ encode }) => await encode(`console.log("a"); ${LOOP}`));
    expect(result).toMatchObject({
      isServerFault: true,
      logs: ['a'],
      error: {
        code: 'timeout',
        message: 'the machine was too busy to give the script 10000 ms of CPU time within 900 ms: try again',
      },
    });
  });

  it('falls on a script that could not be stopped', async () => {
    const result = await withSandbox(IDLE, async ({ encode }) => await encode(NATIVE_LOOP));
    expect(result).toMatchObject({
      isServerFault: false,
      error: {
        code: 'timeout',
        message: 'the script did not stop: its thread was terminated after 2000 ms; its log is lost',
      },
    });
  });

  onLinux('does not fall on a script that could not be stopped and was denied CPU time', async () => {
    await withSandbox(BUSY, async ({ encode, bytes }) => {
      expect(await bytes(GOOD)).toEqual([7]);
      const result = await encode(NATIVE_LOOP);
      expect(result).toMatchObject({
        isServerFault: true,
        error: {
          code: 'timeout',
          message:
            'the machine was too busy to give the script 10000 ms of CPU time within 900 ms: try again; its log is lost',
        },
      });
    });
  });
});

describe('the blame for a failed script', () => {
  it.each([
    ['it throws', 'null.x'],
    ['it takes all memory', 'var kept = []; for (;;) kept.push({ a: 1 });'],
    ['it breaks the engine', 'eval("[".repeat(1e6))'],
    ['it is too large', 'x'.repeat(300_000)],
    ['it runs well', GOOD],
  ])('falls on the script when %s', async (_how, script) => {
    expect(await withSandbox({}, async ({ encode }) => await encode(script))).toMatchObject({ isServerFault: false });
  });

  it('does not fall on the script when its thread dies', async () => {
    const dies =
      'const { parentPort } = require("node:worker_threads"); parentPort.postMessage({ kind: "ready", systemThreadId: undefined, cpuMs: 0 }); parentPort.on("message", () => process.exit(3));';
    let opened = 0;
    const openWorker: SandboxOptions['openWorker'] = (start) =>
      opened++ === 0 ? new Worker(dies, { eval: true }) : openScriptWorker(start);
    expect(await withSandbox({ openWorker }, async ({ encode }) => await encode(GOOD))).toMatchObject({
      isServerFault: true,
      error: { code: 'runtime_error' },
    });
  });
});

describe('the CPU time of a thread', () => {
  onLinux('agrees roughly with what the thread itself reports', () => {
    const before = process.threadCpuUsage();
    while (process.threadCpuUsage(before).user < 100_000);
    const { user, system } = process.threadCpuUsage();
    // The id of the main thread is that of the process.
    expect(Math.abs((getThreadCpuTime(process.pid) ?? 0) - (user + system) / 1000)).toBeLessThan(100);
  });

  it('is unknown for a thread that does not exist', () => {
    expect([getThreadCpuTime(undefined), getThreadCpuTime(2 ** 30)]).toEqual([undefined, undefined]);
  });
});
