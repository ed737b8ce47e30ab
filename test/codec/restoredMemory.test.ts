import { createHash } from 'node:crypto';
import fc from 'fast-check';
import type { Role } from '../../src/codec/roles';
import { createWorkerStart } from '../../src/codec/sandbox';
import { EngineFactory } from '../../src/codec/worker/engine';
import type { PreparedSandbox } from '../../src/codec/worker/preparedSandbox';
import type { ScriptResult } from '../../src/codec/worker/messages';
import { runScript } from '../../src/codec/worker/runScript';
import { SandboxPool } from '../../src/codec/worker/sandboxPool';
import { openSandbox } from './sandboxFixture';

const SEED = 20261128;
const LIMITS = { timeoutMs: 10_000, hardTimeoutMs: 20_000 };

/** Scripts that change whatever a script can change, or show what an earlier one changed. */
const SCRIPTS = [
  'var runs = 0; function decodeUplink(input) { runs += 1; return { data: { runs, b: input.bytes[0] } }; }',
  'seen = typeof seen === "undefined" ? 1 : seen + 1; function decodeUplink() { seen += 1; return { data: { seen } }; }',
  'Object.prototype.left = 1; Array.prototype.map = null; function Decoder(b) { return { left: {}.left, n: b.length }; }',
  'function Decoder(b) { var found = []; for (var k in {}) found.push(k); return { found, map: typeof [].map }; }',
  'JSON.parse = function () { return { bad: 1 }; }; Math.floor = null; function Decoder(b) { return { a: b[1] }; }',
  'function Decoder(b) { return { floor: typeof Math.floor, parsed: JSON.parse("[1]") }; }',
  'console.log("loaded", typeof later); var later = 1; function Decoder() { console.log("ran"); return { later }; }',
  'var kept = []; function Decoder(b) { for (var i = 0; i < 2000; i++) kept.push([i, "x" + i]); return { n: kept.length }; }',
  'function Decoder() { return { deep: (function f(n) { return n ? 1 + f(n - 1) : 0; })(900) }; }',
  'function Decoder() { throw new Error("no " + [1, 2].map(String)); }',
  'Promise.resolve(1).then(function () { globalThis.settled = 1; }); async function decodeUplink() { return { data: { s: settled } }; }',
  'var re = /a+/g; function Decoder() { re.test("aaa"); return { last: re.lastIndex, u: new Uint8Array(3)[0] }; }',
  'delete globalThis.Array; function Decoder() { return { array: typeof Array }; }',
  'function Decoder() { return { array: typeof Array, buffer: Buffer.from([1, 2]).toString("hex") }; }',
  'var b = Buffer.alloc(4); function Decoder() { b[0] += 1; return { b: b[0], text: atob("QQ==") }; }',
  'function nothing() {}',
  'var calls = 0; function decodeUplink() { calls += 1; return { data: { up: calls } }; } function decodeDownlink() { calls += 1; return { data: { down: calls } }; } function encodeDownlink() { calls += 1; return { bytes: [calls] }; }',
  'function Decoder( {',
] as const;

/** Scripts that are stopped, or fail in the engine's own functions. None of them costs the thread. */
const HOSTILE = [
  'for (;;);',
  'function Decoder() { return (function f() { return f() + 1; })(); }',
  'function Decoder() { for (;;); }',
  'async function decodeUplink() { for (;;) await 1; }',
  'Promise.resolve().then(function f() { Promise.resolve().then(f); }); function Decoder() { return {}; }',
  'function Decoder() { return /^(1*)*$/.test("1".repeat(60) + "!"); }',
  'function Decoder() { return eval("[".repeat(1e5)); }',
  'function Decoder() { var s = "x"; for (;;) s += s; }',
  'function Decoder() { throw { get message() { for (;;); } }; }',
  'Object.defineProperty(globalThis, "decodeUplink", { get() { for (;;); } });',
] as const;

type Step = readonly [script: number, role: Role];

it('gives the same results between hostile scripts', async () => {
  const { sandbox, data, decode, events } = openSandbox({ workers: 1, timeoutMs: 60 });
  for (const script of HOSTILE) {
    expect((await decode(script)).error).toBeDefined();
    expect((await decode(script)).error).toBeDefined();
    expect(await data(SCRIPTS[0])).toEqual({ runs: 1, b: 1 });
    expect(await data(SCRIPTS[13])).toEqual({ array: 'function', buffer: '0102' });
  }
  expect(events).toEqual([]);
  await sandbox.stop();
});

const hash = ({ engine }: PreparedSandbox): string => createHash('sha256').update(engine.memory['bytes']).digest('hex');

async function runIn(pool: SandboxPool, script: string, role: Role): Promise<[PreparedSandbox, ScriptResult]> {
  const acquired = await pool.acquire(role, script);
  const input = JSON.stringify({ bytes: [1, 2], data: {}, variables: {} });
  const environment = { acquired, countClockReads: () => 0, limits: LIMITS };
  const { result, isCorrupted } = runScript(environment, { role, script, input });
  expect(isCorrupted).toBe(false);
  pool.release(acquired.sandbox);
  return [acquired.sandbox, result];
}

async function run(pool: SandboxPool, script: string): Promise<PreparedSandbox> {
  const [sandbox] = await runIn(pool, script, 'uplinkDecoder');
  return sandbox;
}

describe('the memory of a sandbox', () => {
  const { engine, preludes } = createWorkerStart(LIMITS);
  let engines: EngineFactory;
  beforeAll(async () => {
    engines = await EngineFactory.create(engine);
  });

  it('gives every run the result of a run in fresh memory', async () => {
    const used = new SandboxPool(engines, preludes);
    const getResult = async (pool: SandboxPool, [script, role]: Step): Promise<unknown> => {
      const [, { executionTimeMs: _, ...result }] = await runIn(pool, SCRIPTS[script] ?? '', role);
      return result;
    };
    const expected = new Map<string, unknown>();
    const step = fc.tuple(
      fc.integer({ min: 0, max: SCRIPTS.length - 1 }),
      fc.constantFrom<Role>('uplinkDecoder', 'uplinkDecoder', 'downlinkDecoder', 'encoder'),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
        for (const one of steps) {
          const key = String(one);
          if (!expected.has(key)) expected.set(key, await getResult(new SandboxPool(engines, preludes), one));
          expect(await getResult(used, one)).toEqual(expected.get(key));
        }
      }),
      { seed: SEED, numRuns: 15 },
    );
  });

  it.each(SCRIPTS)('is restored to the byte after: %s', async (script) => {
    const pool = new SandboxPool(engines, preludes);
    const { sandbox } = await pool.acquire('uplinkDecoder', script);
    sandbox.restore();
    const clean = hash(sandbox);
    expect(await run(pool, script)).toBe(sandbox);
    expect(hash(sandbox)).not.toBe(clean);
    sandbox.restore();
    expect(hash(sandbox)).toBe(clean);
    await run(pool, script); // from the snapshot with the loaded script, if there is one
    sandbox.restore();
    expect(hash(sandbox)).toBe(clean);
  });

  it('has the CPU time that loading the script took, which counts in each run', async () => {
    const pool = new SandboxPool(engines, preludes);
    const [role, input] = ['uplinkDecoder' as const, JSON.stringify({ bytes: [1, 2], variables: {} })];
    const script = 'function Decoder() { for (var n = 0; n < 1e5; n++); return {}; }';
    await run(pool, script);
    const { loaded, ...acquired } = await pool.acquire(role, script);
    if (!loaded) throw new Error('the loaded script was not saved');
    const slow = { ...acquired, loaded: { ...loaded, cpuMs: LIMITS.timeoutMs } };
    const { result } = runScript({ acquired: slow, countClockReads: () => 0, limits: LIMITS }, { role, script, input });
    expect(result.error?.code).toBe('timeout');
  });

  it('is replaced after a script that used much of it', async () => {
    const pool = new SandboxPool(engines, preludes);
    const large = 'function Decoder() { return { n: new Uint8Array(5e6).length }; }';
    const first = await run(pool, large);
    expect(await run(pool, large)).not.toBe(first);
  });
});

describe('a script that loads', () => {
  const { sandbox, data, decode } = openSandbox({ workers: 1 });
  afterAll(async () => await sandbox.stop());

  it.each([
    ['random numbers', 'Math.random()'],
    ['the clock', 'Date.now()'],
    ['the clock of a new Date', '+new Date()'],
  ])('reads %s again in each run', async (_what, expression) => {
    const script = `var loaded = ${expression}; function Decoder() { return { loaded }; }`;
    const values = new Set<unknown>();
    for (let runs = 0; values.size < 2 && runs < 2000; runs += 1) values.add((await data(script))['loaded']);
    expect(values.size).toBe(2);
  });

  it('gets other random numbers in each run', async () => {
    const script = 'function Decoder() { return { random: Math.random() }; }';
    const values = [await data(script), await data(script), await data(script)].map(({ random }) => random);
    expect(new Set(values).size).toBe(3);
  });

  it('writes its log in each run', async () => {
    const script = 'console.log("loaded"); function Decoder() { console.log("called"); return {}; }';
    for (let runs = 0; runs < 3; runs += 1) expect((await decode(script)).logs).toEqual(['loaded', 'called']);
  });
});
