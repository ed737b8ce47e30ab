import { Worker } from 'node:worker_threads';
import type { SandboxOptions } from '../../src/codec';
import { openScriptWorker } from '../../src/codec/scriptThread';
import { cpuMsOf } from '../../src/codec/threadTime';
import { openSandbox, type SandboxRoom } from './sandboxRoom';

const NATIVE_LOOP = 'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)';
const LOOP = 'for (;;);';
const GOOD = 'function encodeDownlink(input) { return [input.data.v]; }';
// No machine gives a script ten seconds within one.
const BUSY = { scriptMs: 10_000, hardMs: 1000 };
const IDLE = { scriptMs: 50, hardMs: 2000 };
const onLinux = process.platform === 'linux' ? it : it.skip;

async function inRoom<T>(options: Partial<SandboxOptions>, work: (room: SandboxRoom) => Promise<T>): Promise<T> {
  const room = openSandbox({ workers: 1, ...options });
  try {
    return await work(room);
  } finally {
    await room.sandbox.stop();
  }
}

describe('a script that is stopped', () => {
  it('computed too long: its own fault', async () => {
    const result = await inRoom(IDLE, async ({ encode }) => await encode(LOOP));
    expect(result).toMatchObject({ blameless: false, error: { code: 'timeout', message: 'the script computed longer than 50 ms; look for a loop that does not end', lineNumber: 1 } });
  });

  it('was not given its time: the fault of the machine', async () => {
    const result = await inRoom(BUSY, async ({ encode }) => await encode(`console.log("a"); ${LOOP}`));
    expect(result).toMatchObject({ blameless: true, logs: ['a'], error: { code: 'timeout', message: 'the machine was too busy to give the script 10000 ms within 900 ms; try again' } });
  });

  it('could not be stopped: its own fault', async () => {
    const result = await inRoom(IDLE, async ({ encode }) => await encode(NATIVE_LOOP));
    expect(result).toMatchObject({ blameless: false, error: { code: 'timeout', message: 'the script could not be stopped and was ended after 2000 ms, and its thread with it; what it logged is lost' } });
  });

  onLinux('could not be stopped and was not given its time: the fault of the machine', async () => {
    await inRoom(BUSY, async ({ encode, bytes }) => {
      expect(await bytes(GOOD)).toEqual([7]);
      const result = await encode(NATIVE_LOOP);
      expect(result).toMatchObject({ blameless: true, error: { code: 'timeout', message: 'the machine was too busy to give the script 10000 ms within 900 ms; try again; what it logged is lost' } });
    });
  });
});

describe('a script that fails by itself', () => {
  it.each([
    ['it throws', 'null.x'],
    ['it takes all memory', 'var kept = []; for (;;) kept.push({ a: 1 });'],
    ['it breaks the engine', 'eval("[".repeat(1e6))'],
    ['it is too large', 'x'.repeat(300_000)],
    ['it runs well', GOOD],
  ])('has nobody else to blame: %s', async (_how, script) => {
    expect(await inRoom({}, async ({ encode }) => await encode(script))).toMatchObject({ blameless: false });
  });

  it('may blame a thread that dies under it', async () => {
    const dies = 'const { parentPort } = require("node:worker_threads"); parentPort.postMessage({ kind: "ready", tid: undefined, cpuMs: 0 }); parentPort.on("message", () => process.exit(3));';
    let opened = 0;
    const openWorker: SandboxOptions['openWorker'] = (start) => (opened++ === 0 ? new Worker(dies, { eval: true }) : openScriptWorker(start));
    expect(await inRoom({ openWorker }, async ({ encode }) => await encode(GOOD))).toMatchObject({ blameless: true, error: { code: 'runtime_error' } });
  });
});

describe('what a thread has computed', () => {
  onLinux('is what it says itself, by and large', () => {
    const before = process.threadCpuUsage();
    while (process.threadCpuUsage(before).user < 100_000);
    const { user, system } = process.threadCpuUsage();
    // The id of the main thread is that of the process.
    expect(Math.abs((cpuMsOf(process.pid) ?? 0) - (user + system) / 1000)).toBeLessThan(100);
  });

  it('is not known of one that is not there', () => {
    expect([cpuMsOf(undefined), cpuMsOf(2 ** 30)]).toEqual([undefined, undefined]);
  });
});
