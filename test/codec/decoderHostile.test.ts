import type { CodecErrorCode } from '../../src/codec';
import { openSandbox, type SandboxFixture } from './sandboxFixture';

// As for encoders: a short timeout where a script must be stopped, a short hard timeout where its thread must be
// terminated, and long ones where memory must run out first.
const shortTimeout = openSandbox({ timeoutMs: 60, hardTimeoutMs: 10_000 });
const shortHardTimeout = openSandbox({ workers: 3, timeoutMs: 60, hardTimeoutMs: 1000 });
const longTimeout = openSandbox();
afterAll(
  async () =>
    await Promise.all([shortTimeout, shortHardTimeout, longTimeout].map(async ({ sandbox }) => await sandbox.stop())),
);

const decoding = (result: string): string => `function decodeUplink() { return ${result}; }`;
const older = (result: string): string => `function Decoder() { return ${result}; }`;

const endless: readonly (readonly [string, string])[] = [
  ['an endless loop', 'function decodeUplink() { for (;;); }'],
  [
    'an endless loop in an older form',
    'function Decode() { while (true) { try { throw 1; } catch (e) { continue; } finally { continue; } } }',
  ],
  ['an endless loop while it loads', 'for (;;);'],
  ['an endless await', 'async function decodeUplink() { for (;;) await 1; }'],
  [
    'regex backtracking over the bytes',
    'function Decoder(bytes) { return /^(1*)*$/.test(Array(60).fill(bytes[0]).join("") + "!"); }',
  ],
  ['a getter of data that never ends', decoding('{ get data() { for (;;); } }')],
  ['a getter within data that never ends', decoding('{ data: { a: { get b() { for (;;); } } } }')],
  ['a getter of errors that never ends', decoding('{ data: {}, get errors() { for (;;); } }')],
  ['a toJSON that never ends', decoding('{ data: { a: { toJSON() { for (;;); } } } }')],
  [
    'a toJSON of every object that never ends',
    `Object.prototype.toJSON = function () { for (;;); };\n${older('{ a: 1 }')}`,
  ],
  [
    'a toJSON that always returns new members',
    older('{ toJSON() { var a = { toJSON() { for (;;); } }; return { a: a }; } }'),
  ],
  ['a Proxy that never ends', older('new Proxy({}, { ownKeys() { for (;;); } })')],
  ['a Proxy that never ends with its values', decoding('{ data: new Proxy({ a: 1 }, { get() { for (;;); } }) }')],
  [
    'a Proxy with endless omitted members',
    decoding('{ data: { l: new Proxy({}, { ownKeys() { var k = []; for (;;) k[0] = "k"; } }) } }'),
  ],
  ['an endless iterator', 'function Decoder() { for (var x of { *[Symbol.iterator]() { for (;;) yield 1; } }); }'],
];

// The engine does not check for interrupts in native loops.
const hanging: readonly (readonly [string, string])[] = [
  [
    'indexOf in the decoder',
    'function Decoder() { return { at: Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1) }; }',
  ],
  [
    'indexOf in a getter of its data',
    decoding('{ data: { get at() { return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); } } }'),
  ],
  [
    'lastIndexOf in a toJSON',
    older('{ a: { toJSON() { return Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1); } } }'),
  ],
];

const greedy: readonly (readonly [string, string])[] = [
  ['memory in small pieces', 'var kept = []; function decodeUplink() { for (;;) kept.push({ a: 1 }); }'],
  ['a result of 100 MB in one piece', decoding('{ data: { bytes: new Uint8Array(1e8) } }')],
  ['a full list of 100 MB', decoding('{ data: { list: new Array(1e8).fill(1) } }')],
  [
    'a string that grows while it is read',
    older('{ get t() { var s = "ab"; for (;;) s = s.split("").join("") + s; } }'),
  ],
  [
    'a Proxy of endlessly many names',
    older('new Proxy({}, { ownKeys() { var keys = []; for (var i = 0; ; i++) keys.push("k" + i); } })'),
  ],
];

const others: readonly (readonly [string, string, CodecErrorCode])[] = [
  ['recursion in the decoder', 'function decodeUplink(i) { return decodeUplink(i); }', 'runtime_error'],
  ['recursion in a toJSON', older('{ a: { toJSON() { return this.toJSON(); } } }'), 'runtime_error'],
  ['JSON of JSON in a toJSON', older('{ a: { toJSON() { return JSON.stringify(this); } } }'), 'runtime_error'],
  [
    'a getter that always returns new objects',
    older('(function more() { return { get o() { return more(); } }; })()'),
    'bad_output',
  ],
  [
    'a toJSON that always returns new objects',
    older('(function more() { return { o: { toJSON: more } }; })()'),
    'bad_output',
  ],
  [
    'a Proxy that returns itself',
    older(
      '(function () { var p = new Proxy({ a: 1 }, { get(t, k) { return k === "toJSON" ? undefined : p; } }); return p; })()',
    ),
    'bad_output',
  ],
  [
    'a Proxy of a list that claims to be endless',
    older('{ l: new Proxy([], { get(t, k) { return k === "length" ? Infinity : k === "toJSON" ? undefined : 1; } }) }'),
    'too_large',
  ],
  // The engine itself keeps a list while it writes JSON.
  [
    'setters of numbers that throw',
    `Object.defineProperty(Array.prototype, 0, { set() { throw "mine"; } });\n${older('{ a: { b: 1 } }')}`,
    'runtime_error',
  ],
  ['a Proxy that throws', decoding('{ data: new Proxy({}, { get() { throw new Error("gone"); } }) }'), 'runtime_error'],
  [
    'a revoked Proxy',
    'function decodeUplink() { var p = Proxy.revocable({}, {}); p.revoke(); return { data: p.proxy }; }',
    'runtime_error',
  ],
  [
    'a revoked Proxy within data',
    'function Decoder() { var p = Proxy.revocable([], {}); p.revoke(); return { l: p.proxy }; }',
    'runtime_error',
  ],
  [
    'an escape through the bytes',
    'function Decoder(bytes) { return { p: bytes.constructor.constructor("return process")().pid }; }',
    'runtime_error',
  ],
  [
    'an escape through recvTime',
    'function decodeUplink(i) { return { data: i.recvTime.constructor.constructor("return require")()("fs") }; }',
    'runtime_error',
  ],
];

async function expectWorks({ data, bytes }: SandboxFixture, owner = 'org-1'): Promise<void> {
  expect(
    await data(
      'function decodeUplink(input) { return { data: { level: input.bytes[1], nothing: {}.isAdmin === undefined } }; }',
      { owner },
    ),
  ).toEqual({ level: 40, nothing: true });
  expect(await bytes('function encodeDownlink(input) { return [1, input.data.v]; }', { owner })).toEqual([1, 7]);
}

const recvTime = 0;

describe('a hostile decoder', () => {
  it.each(endless)('is stopped in time and keeps its thread: %s', async (_what, script) => {
    expect(await shortTimeout.decode(script, { recvTime })).toMatchObject({
      data: undefined,
      error: { code: 'timeout' },
      isServerFault: false,
    });
    await expectWorks(shortTimeout);
    expect(shortTimeout.events).toEqual([]);
  });

  // These run concurrently, because none can be terminated before its time is over.
  it('loses its thread when it cannot be stopped', async () => {
    const results = await Promise.all(
      hanging.map(async ([owner, script]) => ({ owner, ...(await shortHardTimeout.decode(script, { owner })) })),
    );
    for (const result of results)
      expect(result).toMatchObject({ owner: result.owner, data: undefined, error: { code: 'timeout' } });
    for (const [owner] of hanging) await expectWorks(shortHardTimeout, owner);
    const replaced = hanging.map(([owner]) => ({
      event: 'codec.worker_restarted',
      fields: { reason: 'timed_out', owner },
    }));
    expect(shortHardTimeout.events).toHaveLength(hanging.length);
    expect(shortHardTimeout.events).toEqual(expect.arrayContaining(replaced));
  });

  it.each(greedy)('gets no more memory than its limit: %s', async (_what, script) => {
    expect((await longTimeout.decode(script)).error).toMatchObject({ code: 'out_of_memory' });
    await expectWorks(longTimeout);
  });

  it.each(others)('harms only itself: %s', async (_what, script, code) => {
    expect((await longTimeout.decode(script, { recvTime })).error).toMatchObject({ code });
    await expectWorks(longTimeout);
  });
});

describe('a decoder that changes the language', () => {
  const GOOD = { a: 1, list: [1, { b: 'x' }], at: '1970-01-01T00:00:00.000Z', none: null };
  const script =
    'function decodeUplink(input) { return { data: { a: input.bytes[0], list: [1, { b: "x" }], at: input.recvTime, none: NaN, gone: undefined }, warnings: ["w"] }; }';
  const plain =
    'function Decoder(bytes) { return { a: bytes[0], list: [1, { b: "x" }], at: "1970-01-01T00:00:00.000Z", none: null }; }';

  it.each([
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
      'Array = Object = String = Number = Uint8Array = Promise = Reflect = Proxy = Error = Function = Date = null;',
    ],
    [
      'numbered setters',
      'for (var i of [0, 1, 2]) for (var o of [Array.prototype, Object.prototype]) Object.defineProperty(o, i, { set() {}, get() { return 9; } });',
    ],
    [
      'named getters',
      'for (let n of ["recvTime", "bytes", "answer", "problem", "errors", "warnings", "isList", "key", "depth", "up", "code", "message", "text", "refusal", "", "then", "value"]) Object.defineProperty(Object.prototype, n, { get() { return undefined; }, set() { throw "cheat"; }, configurable: true });',
    ],
    [
      'Function.prototype',
      'Function.prototype.call = Function.prototype.apply = Function.prototype.bind = function () { return "cheat"; };',
    ],
    ['the prototype of lists', 'Object.setPrototypeOf(Array.prototype, null);'],
    ['frozen globals', 'Object.freeze(globalThis); Object.freeze(Object.prototype); Object.freeze(Array.prototype);'],
    ['undefined and the module', 'delete globalThis.module; delete globalThis.exports; module = undefined;'],
  ])('does not affect how its data is read: %s', async (_what, cheat) => {
    expect(await longTimeout.data(`${script}\n${cheat}`, { recvTime })).toEqual(GOOD);
    expect(await longTimeout.data(`${plain}\n${cheat}`)).toEqual(GOOD);
    expect((await longTimeout.decode(`function decodeUplink() {\n  null.x;\n}\n${cheat}`)).error).toMatchObject({
      code: 'runtime_error',
      lineNumber: 2,
    });
  });

  it('pollutes nothing on the host', async () => {
    const { error } = await longTimeout.decode(
      'function Decoder() { return JSON.parse(\'{"__proto__": {"isAdmin": true}, "constructor": {"prototype": {"isAdmin": true}}}\'); }',
    );
    expect(error?.code).toBe('bad_output');
    const data = await longTimeout.data(
      'function Decoder() { return { __proto__: { isAdmin: true }, constructor: { prototype: { isAdmin: true } } }; }',
    );
    expect(Object.keys(data)).toEqual(['constructor']);
    expect(['isAdmin' in data, 'isAdmin' in {}]).toEqual([false, false]);
  });

  it('leaves no trace for later encoders and decoders', async () => {
    const polluting =
      'leak = 1; Object.prototype.leak2 = 2; JSON.stringify = null; Date.prototype.toJSON = function () { return "leak"; }; function decodeUplink() { return { data: {} }; }';
    const inspecting =
      '[typeof leak === "undefined", {}.leak2 === undefined, typeof JSON.stringify === "function", JSON.stringify(new Date(0)).length > 9]';
    for (let round = 0; round < 3; round += 1) {
      expect(await longTimeout.data(polluting)).toEqual({});
      expect(await longTimeout.data(`function Decoder() { return { seen: ${inspecting} }; }`)).toEqual({
        seen: [true, true, true, true],
      });
      expect(await longTimeout.bytes(`function encodeDownlink() { return ${inspecting}.map(Number); }`)).toEqual([
        1, 1, 1, 1,
      ]);
    }
  });
});
