import type { CodecErrorCode } from '../../src/codec';
import { readAsset } from '../../src/kernel/assets';
import { openSandbox, type SandboxFixture } from './sandboxFixture';

// Three sandboxes: a short timeout where a script must be stopped, a short hard timeout where its thread must be
// terminated, and long ones where memory must run out first, however busy the machine is.
const shortTimeout = openSandbox({ timeoutMs: 60, hardTimeoutMs: 10_000 });
const shortHardTimeout = openSandbox({ timeoutMs: 60, hardTimeoutMs: 1000 });
const longTimeout = openSandbox();
afterAll(
  async () =>
    await Promise.all([shortTimeout, shortHardTimeout, longTimeout].map(async ({ sandbox }) => await sandbox.stop())),
);

const encoding = (result: string): string => `function encodeDownlink() { return ${result}; }`;

const endless: readonly (readonly [string, string])[] = [
  ['an endless loop', 'while (true) {}'],
  ['an endless loop in try and finally', 'for (;;) { try { for (;;) {} } catch (e) {} finally { continue; } }'],
  ['an endless loop in the encoder', 'function encodeDownlink() { for (;;); }'],
  ['regex backtracking', '/^(a+)+$/.test("a".repeat(50) + "!")'],
  [
    'an endless promise chain',
    'function next() { Promise.resolve().then(next); } next(); function encodeDownlink() { return [1]; }',
  ],
  ['an endless await', 'async function encodeDownlink() { for (;;) await 1; }'],
  ['an endless getter in the result', encoding('{ get bytes() { for (;;); } }')],
  ['an endless Proxy in the result', encoding('new Proxy({}, { get() { for (;;); } })')],
  ['an endless getter in what it throws', 'throw { get message() { for (;;); } }'],
  ['an endless toJSON in the log', 'console.log({ toJSON() { for (;;); } })'],
  ['an endless valueOf', '+{ valueOf() { for (;;); } }'],
  ['console flooding', 'for (;;) console.log("x".repeat(1000))'],
  ['an endless generator', 'function* g() { for (;;) yield 1; } for (var x of g());'],
  ['a loop in eval', 'eval("for (;;);")'],
  ['a loop in Function', 'new Function("for (;;);")()'],
];

// The engine does not check for interrupts in native loops.
const hanging: readonly (readonly [string, string])[] = [
  ['indexOf', 'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)'],
  ['join', 'new Array(2 ** 28).join("ab")'],
  ['lastIndexOf', 'Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1)'],
];

const greedy: readonly (readonly [string, string])[] = [
  ['memory in small pieces', 'var kept = []; for (;;) kept.push({ a: 1 });'],
  [
    'memory in small pieces, caught',
    'var kept = []; for (;;) { try { for (;;) kept.push({ a: 1 }); } catch (e) { throw e; } }',
  ],
  ['memory in big pieces', 'var kept = []; for (;;) kept.push(new Uint8Array(1e6));'],
  ['memory in one piece', 'new Uint8Array(1e9)'],
  ['string doubling', 'var s = "ab"; for (;;) s += s;'],
  ['string doubling that is flattened', 'var s = "ab"; for (;;) s = s.split("").join("") + s;'],
  ['repeat', '"x".repeat(2 ** 29)'],
  ['a BigInt that squares itself', 'var n = 3n; for (;;) n = n * n;'],
  ['a BigInt that shifts itself', '1n << (1n << 40n)'],
  ['a full list of 100 MB', encoding('{ bytes: new Array(1e8).fill(1) }')],
  ['a typed array of 100 MB', encoding('{ bytes: new Uint8Array(1e8) }')],
  ['memory for a regex', '/(x)*/.exec("x".repeat(7e6))'],
  ['memory for a regex with branches', '/(?:x|y)*z/.test("x".repeat(4e6))'],
  ['normalize', '"a".repeat(5e6).normalize("NFKD")'],
  ['a growing Map', 'var m = new Map(); for (var i = 0; ; i++) m.set(i, i);'],
  [
    'a result that grows while it is read',
    encoding('{ bytes: [1], get warnings() { var kept = []; for (;;) kept.push("x".repeat(1000) + kept.length); } }'),
  ],
];

const others: readonly (readonly [string, string, CodecErrorCode])[] = [
  ['recursion', 'function f() { return f() + 1; } f();', 'runtime_error'],
  ['recursion by toString', 'var o = { toString() { return "" + this; } }; "" + o;', 'runtime_error'],
  ['recursion in the encoder', 'function encodeDownlink(i) { return encodeDownlink(i); }', 'runtime_error'],
  ['deep brackets in eval', 'eval("[".repeat(1e6))', 'runtime_error'],
  ['deep brackets in JSON', 'JSON.parse("[".repeat(1e6))', 'runtime_error'],
  ['deep brackets in the script', '['.repeat(200_000), 'syntax_error'],
  ['deep braces in the script', '{'.repeat(200_000), 'syntax_error'],
  ['deep groups in a regex', 'new RegExp("(?:".repeat(1e5))', 'runtime_error'],
  [
    'an escape through constructor.constructor',
    'this.constructor.constructor("return process")().exit()',
    'runtime_error',
  ],
  ['an escape through the console', 'console.log.constructor("return process")().exit()', 'runtime_error'],
  [
    'an escape through the input',
    'function encodeDownlink(input) { return input.constructor.constructor("return require")()("fs"); }',
    'runtime_error',
  ],
  ['an escape through import', 'async function encodeDownlink() { return await import("node:fs"); }', 'runtime_error'],
  ['a Proxy that throws', encoding('new Proxy({}, { get() { throw new Error("gone"); } })'), 'runtime_error'],
  ['a getter that throws', encoding('{ bytes: [1], get fPort() { throw new Error("gone"); } }'), 'runtime_error'],
  [
    'a revoked Proxy',
    'function encodeDownlink() { var p = Proxy.revocable([], {}); p.revoke(); return { bytes: p.proxy }; }',
    'runtime_error',
  ],
  [
    'a Proxy of a list that claims to be endless',
    encoding('{ bytes: new Proxy([], { get(t, k) { return k === "length" ? Infinity : 1; } }) }'),
    'bad_output',
  ],
  [
    'a Proxy of a list that claims to be huge',
    encoding('{ bytes: new Proxy([], { get(t, k) { return k === "length" ? 2 ** 53 : 1; } }) }'),
    'too_large',
  ],
  ['a sparse list of 100 MB', encoding('{ bytes: new Array(1e8) }'), 'too_large'],
  [
    'an array that is not an array',
    encoding('{ bytes: { __proto__: Array.prototype, length: 1, 0: 1 } }'),
    'bad_output',
  ],
  ['a typed array that is not a typed array', encoding('{ bytes: Object.create(Uint8Array.prototype) }'), 'bad_output'],
];

async function expectWorks({ bytes }: SandboxFixture): Promise<void> {
  expect(await bytes('function encodeDownlink(input) { return [1, input.data.v]; }')).toEqual([1, 7]);
}

describe('a hostile script', () => {
  it.each(endless)('is stopped in time and keeps its thread: %s', async (_what, script) => {
    expect(await shortTimeout.encode(script)).toMatchObject({ error: { code: 'timeout' }, isServerFault: false });
    await expectWorks(shortTimeout);
    expect(shortTimeout.events).toEqual([]);
  });

  it.each(hanging)('loses its thread when it cannot be stopped: %s', async (_what, script) => {
    const lost = shortHardTimeout.events.length;
    expect((await shortHardTimeout.encode(script)).error).toMatchObject({ code: 'timeout' });
    await expectWorks(shortHardTimeout);
    expect(shortHardTimeout.events.slice(lost)).toEqual([
      { event: 'codec.worker_restarted', fields: { reason: 'timed_out', owner: 'org-1' } },
    ]);
  });

  it('is stopped or loses its thread, depending on the machine: nested lists as JSON', async () => {
    expect(
      (await shortHardTimeout.encode('var a = []; for (var i = 0; i < 30000; i++) a = [a]; for (;;) JSON.stringify(a)'))
        .error,
    ).toMatchObject({ code: 'timeout' });
    await expectWorks(shortHardTimeout);
  });

  it.each(greedy)('gets no more memory than its limit: %s', async (_what, script) => {
    expect((await longTimeout.encode(script)).error).toMatchObject({ code: 'out_of_memory' });
    await expectWorks(longTimeout);
  });

  it.each(others)('harms only itself: %s', async (_what, script, code) => {
    expect((await longTimeout.encode(script)).error).toMatchObject({ code });
    await expectWorks(longTimeout);
  });
});

describe('a script that keeps all memory', () => {
  it.each([
    [
      'and continues',
      'var kept = []; try { for (;;) kept.push({ a: 1 }); } catch (e) {} function encodeDownlink() { return [1]; }',
    ],
    [
      'in big pieces, then in small ones',
      'var kept = []; for (var size = 1e6; size > 1; size = size / 2 | 0) { try { for (;;) kept.push(new Uint8Array(size)); } catch (e) {} } function encodeDownlink() { return [1]; }',
    ],
    [
      'in the encoder',
      'var kept = []; function encodeDownlink() { try { for (;;) kept.push({ a: 1 }); } catch (e) {} return { bytes: new Uint8Array(60000), warnings: kept }; }',
    ],
    [
      'in what it throws',
      'var kept = []; function encodeDownlink() { try { for (;;) kept.push("x" + kept.length); } catch (e) { throw { message: "x".repeat(1e6), kept: kept }; } }',
    ],
  ])('fails alone or not at all: %s', async (_what, script) => {
    const { output, error } = await longTimeout.encode(script);
    expect([undefined, 'out_of_memory']).toContain(error?.code);
    expect([undefined, 1, 60_000]).toContain(output?.bytes.length);
    await expectWorks(longTimeout);
  });
});

describe('a script that changes the language', () => {
  const cheats: readonly (readonly [string, string])[] = [
    [
      'toJSON everywhere',
      'for (var p of [Object, Array, String, Number]) p.prototype.toJSON = function () { return "cheat"; };',
    ],
    ['JSON', 'JSON.stringify = JSON.parse = function () { return "cheat"; }; JSON = null;'],
    [
      'list methods and iteration',
      'Array.prototype[Symbol.iterator] = Array.prototype.push = Array.prototype.join = Array.prototype.map = null; Array.isArray = function () { return false; };',
    ],
    [
      'string methods',
      'for (var n of Object.getOwnPropertyNames(String.prototype)) if (n !== "length") String.prototype[n] = null;',
    ],
    [
      'the constructors',
      'Array = Object = String = Number = Uint8Array = Promise = Reflect = Proxy = Error = Function = null;',
    ],
    [
      'numbered setters',
      'for (var i of [0, 1, 2]) { Object.defineProperty(Array.prototype, i, { set() { throw "cheat"; }, get() { return 9; } }); Object.defineProperty(Object.prototype, i, { set() { throw "cheat"; }, get() { return 9; } }); }',
    ],
    [
      'named getters',
      'for (let n of ["fPort", "errors2", "hex", "problem", "code", "then", "exports"]) Object.defineProperty(Object.prototype, n, { get() { return n === "fPort" ? undefined : 9; }, set() { throw "cheat"; }, configurable: true });',
    ],
    [
      'Function.prototype',
      'Function.prototype.call = Function.prototype.apply = Function.prototype.bind = function () { return "cheat"; };',
    ],
    ['typed arrays', 'Object.setPrototypeOf(Uint8Array.prototype, null); Uint8Array.prototype.length = 1e9;'],
    ['promises', 'Promise.prototype.then = function () { for (;;); }; Promise.prototype.constructor = null;'],
    ['frozen globals', 'Object.freeze(globalThis);'],
    [
      'a global without a prototype',
      'Object.setPrototypeOf(Object.prototype, null); delete globalThis.undefined; delete globalThis.module; delete globalThis.exports;',
    ],
  ];

  it.each(cheats)('does not affect how its result is read: %s', async (_what, cheat) => {
    expect(
      await longTimeout.bytes(
        `function encodeDownlink(input) { return { bytes: [1, input.data.v], warnings: ["w"] }; }\n${cheat}`,
      ),
    ).toEqual([1, 7]);
    expect(
      await longTimeout.bytes(
        `var made = new Uint8Array([1, 2]);\nfunction encodeDownlink() { return made; }\n${cheat}`,
      ),
    ).toEqual([1, 2]);
    expect((await longTimeout.encode(`function encodeDownlink() {\n  null.x;\n}\n${cheat}`)).error).toMatchObject({
      code: 'runtime_error',
      lineNumber: 2,
    });
  });

  it('cannot reach the guest code of the server, which looks up nothing in the engine while it runs', () => {
    // The engine calls String.prototype.concat for template literals.
    for (const guest of ['encoderGuest.js', 'decoderGuest.js'])
      expect(readAsset(guest).toString()).not.toMatch(/`|\.concat\(/);
  });

  it('leaves no trace for later scripts', async () => {
    const polluting = `leak = 1; var leak2 = 2; Object.prototype.leak3 = 3; Array.prototype.push = null; console.log = null; module.exports.encodeDownlink = function () { return [9]; }; Buffer.from = null; atob = null; function encodeDownlink() { return []; }`;
    const inspecting =
      'function encodeDownlink() { return [typeof leak === "undefined", typeof leak2 === "undefined", {}.leak3 === undefined, typeof [].push === "function", typeof console.log === "function", Object.keys(module.exports).length === 0, typeof Buffer.from === "function", typeof atob === "function"].map(Number); }';
    for (let round = 0; round < 4; round += 1) {
      await longTimeout.bytes(polluting);
      expect(await longTimeout.bytes(inspecting)).toEqual(Array(8).fill(1));
    }
  });
});
