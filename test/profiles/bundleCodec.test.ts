import { createContext, runInContext, Script } from 'node:vm';
import { transformSync } from 'esbuild';
import { bundleCodec } from '../../src/profiles/codecs/bundleCodec';
import { scriptsFromColumn, scriptsToColumns } from '../../src/profiles/codecs/storedScripts';
import { CODEC_ROLES, type CodecRole, type CodecScripts } from '../../src/profiles';
import { openSandbox, type SandboxFixture } from '../codec/sandboxFixture';

type Texts = Partial<Readonly<Record<CodecRole, string>>>;

/** Puts each role into a separate file. */
const getScripts = (texts: Texts): CodecScripts =>
  Object.fromEntries(
    CODEC_ROLES.map((role) => [
      role,
      texts[role] === undefined ? undefined : { name: `${role}.js`, text: texts[role] },
    ]),
  ) as unknown as CodecScripts;

const HELPERS = {
  encoder:
    'function helper(v) { return v + 1; }\nconst SCALE = 10;\nfunction encodeDownlink(input) { return { bytes: [helper(input.data.v) * SCALE] }; }',
  decoder:
    'function helper(v) { return v - 1; }\nconst SCALE = 100;\nfunction decodeUplink(input) { return { data: { v: helper(input.bytes[0]) * SCALE } }; }',
  downlinkDecoder:
    'var helper = (v) => -v;\nlet SCALE = 2;\nfunction decodeDownlink(input) { return { data: { v: helper(input.bytes[0]) * SCALE } }; }',
};

const ENCODE = 'function encodeDownlink(input) { return { bytes: [input.data.v] }; }';

/** Creates a file that counts its calls in a global variable, and creates another one when it is called. */
const counting = (name: string, step: number): string =>
  `count = 0;\nfunction ${name}() { count += ${step}; made = [typeof made, count]; return made; }`;

/**
 * Runs a script like a server that calls its global functions, in strict or sloppy mode. Returns the result as JSON.
 */
function called(script: string, call: string, code: 'strict' | 'sloppy'): unknown {
  const start = code === 'strict' ? '"use strict";\n' : '';
  return JSON.parse(new Script(`${start}${script}\nJSON.stringify(${call})`).runInContext(createContext({})) as string);
}

describe('a codec as one script', () => {
  let fixture: SandboxFixture;
  beforeAll(() => {
    fixture = openSandbox({ workers: 1 });
  });
  afterAll(async () => await fixture.sandbox.stop());

  const encoded = async (script: string, v: unknown): Promise<unknown> =>
    await fixture.bytes(script, { data: { v: v as number } });
  const decoded = async (script: string, direction: 'uplink' | 'downlink', ...bytes: number[]): Promise<unknown> => {
    const { data, error } = await fixture.sandbox.decode({
      owner: 'org-1',
      script,
      direction,
      bytes: Uint8Array.from(bytes),
      fPort: 3,
      recvTime: undefined,
    });
    return data ?? error;
  };

  it('is empty without files, and an unchanged copy of a single file', () => {
    expect(bundleCodec(getScripts({}))).toBe('');
    const file = { name: 'all.js', text: 'x = 010; // all' };
    expect(bundleCodec({ encoder: file, decoder: file, downlinkDecoder: { ...file } })).toBe(file.text);
    expect(bundleCodec({ encoder: undefined, decoder: file, downlinkDecoder: undefined })).toBe(file.text);
  });

  it('runs all three files in the sandbox, each with its own helpers', async () => {
    const script = bundleCodec(getScripts(HELPERS));
    expect([
      await encoded(script, 3),
      await decoded(script, 'uplink', 3),
      await decoded(script, 'downlink', 3),
    ]).toEqual([[40], { v: 200 }, { v: -6 }]);
  });

  it.each(['strict', 'sloppy'] as const)('defines global functions for a server that runs it as %s code', (code) => {
    const script = bundleCodec(getScripts(HELPERS));
    expect(
      called(
        script,
        '[encodeDownlink({ data: { v: 3 } }), decodeUplink({ bytes: [3] }), decodeDownlink({ bytes: [3] })]',
        code,
      ),
    ).toEqual([{ bytes: [40] }, { data: { v: 200 } }, { data: { v: -6 } }]);
  });

  it('contains its files as encoder, decoder and downlink decoder, each once', () => {
    const [both, decoder] = [
      '/* both */ function encodeDownlink() {} function decodeDownlink(i) { return { data: { from: "both" } }; }',
      '/* decoder */ function decodeUplink() {}',
    ];
    const shared = { name: 'both.js', text: both };
    const script = bundleCodec({
      encoder: shared,
      decoder: { name: 'decoder.js', text: decoder },
      downlinkDecoder: shared,
    });
    expect(script.split('/* both */')).toHaveLength(2);
    expect(script.indexOf(both)).toBeLessThan(script.indexOf(decoder));
    expect(called(script, 'decodeDownlink()', 'sloppy')).toEqual({ data: { from: 'both' } });
    expect(
      bundleCodec(
        scriptsFromColumn(
          scriptsToColumns({
            encoder: shared,
            decoder: { name: 'decoder.js', text: decoder },
            downlinkDecoder: { ...shared },
          }).scripts,
        ),
      ),
    ).toBe(script);
  });

  it('treats two files of one name as different if their texts differ', async () => {
    const script = bundleCodec({
      encoder: { name: 'a.js', text: ENCODE },
      decoder: { name: 'a.js', text: 'function decodeUplink() { return { data: { a: 2 } }; }' },
      downlinkDecoder: undefined,
    });
    expect([await encoded(script, 5), await decoded(script, 'uplink', 1)]).toEqual([[5], { a: 2 }]);
  });

  it('uses only the function of its role from each file', async () => {
    const decoder =
      'function encodeDownlink() { return [66]; }\nfunction Encode() { return [67]; }\nfunction decodeUplink(input) { return { data: { mine: true } }; }';
    const script = bundleCodec(
      getScripts({
        encoder:
          'function decodeUplink() { return { data: { mine: false } }; }\nfunction Encoder(obj) { return [obj.v]; }',
        decoder,
      }),
    );
    expect([await encoded(script, 7), await decoded(script, 'uplink', 1)]).toEqual([[7], { mine: true }]);
  });

  it('supports older forms', async () => {
    const script = bundleCodec(
      getScripts({
        encoder: 'function Encode(fPort, obj, variables) { return [obj.v, 1]; }',
        decoder: 'function Decoder(bytes, port) { return { port: port, first: bytes[0] }; }',
      }),
    );
    expect([await encoded(script, 9), await decoded(script, 'uplink', 8)]).toEqual([[9, 1], { port: 3, first: 8 }]);
    const other = bundleCodec(
      getScripts({
        encoder: 'var Encoder = function (obj) { return [obj.v, 2]; };',
        decoder: 'Decode = function (fPort, bytes) { return { first: bytes[0] }; };',
      }),
    );
    expect([await encoded(other, 9), await decoded(other, 'uplink', 8)]).toEqual([[9, 2], { first: 8 }]);
  });

  it.each<[string, string]>([
    ['a comment at its end', `${ENCODE} // that is all`],
    ['no semicolon at its end', `${ENCODE}\nvar last = [1]`],
    ['octal numbers', `var seven = 07;\n${ENCODE.replace('input.data.v', 'seven')}`],
    ['undeclared names', `table = [7];\nfunction encodeDownlink() { found = table[0]; return { bytes: [found] }; }`],
    ['with', 'function encodeDownlink(input) { with (input.data) { return { bytes: [v] }; } }'],
    [
      'strict code',
      `"use strict";\n${ENCODE.replace('return', 'if (this !== undefined) throw new Error("sloppy"); return')}`,
    ],
    ['the global object as this', 'this.shared = 7;\nfunction encodeDownlink() { return { bytes: [shared] }; }'],
    [
      'a function that is used before its declaration',
      'var first = seven();\nfunction encodeDownlink() { return { bytes: [first] }; }\nfunction seven() { return 7; }',
    ],
    ['a constant', 'const encodeDownlink = (input) => ({ bytes: [input.data.v] });'],
    [
      'a member of the global object',
      'globalThis.encodeDownlink = function (input) { return { bytes: [input.data.v] }; };',
    ],
    ['module.exports', 'module.exports = { encodeDownlink: (input) => ({ bytes: [input.data.v] }) };'],
    ['exports', 'exports.encodeDownlink = (input) => ({ bytes: [input.data.v] });'],
    ['exports.default', 'exports.default = { encodeDownlink: (input) => ({ bytes: [input.data.v] }) };'],
    [
      'the function itself as module.exports',
      'module.exports = function encodeDownlink(input) { return { bytes: [input.data.v] }; };',
    ],
    ['exports of nothing', `module.exports = null;\n${ENCODE}`],
    [
      'exports in addition to a global',
      `${ENCODE}\nif (typeof module !== "undefined" && module.exports) { module.exports.encodeDownlink = encodeDownlink; module.exports.other = 1; }`,
    ],
    [
      'variables with the names of the wrapper',
      `let module = 1, exports = 2; const files = 3; var entries = 4, file = 5, own = 6, exported = 7, exportedAs;\n${ENCODE}`,
    ],
    ['a promise', 'async function encodeDownlink(input) { return { bytes: [await input.data.v] }; }'],
    ['windows lines', ENCODE.replaceAll(' ', '\r\n').replace('return\r\n', 'return ')],
  ])('runs a file with %s next to others', async (_what, encoder) => {
    const script = bundleCodec(getScripts({ ...HELPERS, encoder }));
    expect(await encoded(script, 7)).toEqual([7]);
    expect([await decoded(script, 'uplink', 3), await decoded(script, 'downlink', 3)]).toEqual([{ v: 200 }, { v: -6 }]);
  });

  it('does not mix the exports of its files', async () => {
    const script = bundleCodec(
      getScripts({
        encoder: 'module.exports = { encodeDownlink: (i) => [i.data.v] };',
        decoder: 'module.exports = { decodeUplink: () => ({ data: { n: Object.keys(module.exports) } }) };',
      }),
    );
    expect([await encoded(script, 7), await decoded(script, 'uplink', 3)]).toEqual([[7], { n: ['decodeUplink'] }]);
  });

  it.each(['a\nfunction encodeDownlink() {}', 'a\u2028b */ ${x} `.js', '"});('])(
    'stays correct with a file called %j',
    async (name) => {
      const script = bundleCodec({
        encoder: { name, text: ENCODE },
        decoder: { name: 'd.js', text: 'function decodeUplink() { return { data: {} }; }' },
        downlinkDecoder: undefined,
      });
      expect(await encoded(script, 5)).toEqual([5]);
      expect(script).not.toMatch(/[\u2028\u2029]/);
    },
  );

  it('gives each file the global object as this, in strict code too', () => {
    const script = bundleCodec(
      getScripts({
        encoder: 'this.table = [10];\nfunction encodeDownlink() { return table; }',
        decoder: 'this.table = [100];\nfunction decodeUplink() { return table; }',
      }),
    );
    expect(called(script, '[encodeDownlink(), decodeUplink(), typeof table]', 'strict')).toEqual([
      [10],
      [100],
      'undefined',
    ]);
  });

  it('has no function for roles that no file supports', async () => {
    const script = bundleCodec(getScripts({ decoder: HELPERS.decoder, downlinkDecoder: HELPERS.downlinkDecoder }));
    expect(called(script, 'typeof encodeDownlink', 'sloppy')).toBe('undefined');
    expect((await fixture.encode(script)).error?.code).toBe('no_encoder');
  });

  it.each<[string, string, string]>([
    [
      'numbers',
      'SCALE = 10;\nfunction encodeDownlink(i) { return { bytes: [i.data.v * SCALE] }; }',
      'SCALE = 100;\nfunction decodeUplink(i) { return { data: { v: i.bytes[0] * SCALE } }; }',
    ],
    [
      'functions',
      'conv = function (v) { return v * 10; };\nfunction encodeDownlink(i) { return { bytes: [conv(i.data.v)] }; }',
      'conv = function (v) { return v * 100; };\nfunction decodeUplink(i) { return { data: { v: conv(i.bytes[0]) } }; }',
    ],
    [
      'members of the global object',
      'this.conv = function (v) { return v * 10; };\nfunction encodeDownlink(i) { return { bytes: [conv(i.data.v)] }; }',
      'globalThis.conv = (v) => v * 100;\nfunction decodeUplink(i) { return { data: { v: conv(i.bytes[0]) } }; }',
    ],
    [
      'functions of the engine',
      'parseInt = function (v) { return v * 10; };\nfunction encodeDownlink(i) { return { bytes: [parseInt(i.data.v)] }; }',
      'function decodeUplink(i) { return { data: { v: parseInt(i.bytes[0] + "00") } }; }',
    ],
    [
      'functions of the engine that are deleted',
      'delete globalThis.parseInt;\nfunction encodeDownlink(i) { return { bytes: [typeof parseInt === "undefined" ? i.data.v * 10 : 0] }; }',
      'function decodeUplink(i) { return { data: { v: parseInt(i.bytes[0] + "00") } }; }',
    ],
    [
      'methods',
      'Number.prototype.conv = function () { return this * 10; };\nfunction encodeDownlink(i) { return { bytes: [i.data.v.conv()] }; }',
      'Number.prototype.conv = function () { return this * 100; };\nfunction decodeUplink(i) { return { data: { v: i.bytes[0].conv() } }; }',
    ],
    [
      'helpers of one kind with the names of the wrapper',
      'files = entries = current = baseline = sharedObjects = 10;\nfunction encodeDownlink(i) { return { bytes: [i.data.v * files] }; }',
      'files = entries = current = baseline = sharedObjects = 100;\nfunction decodeUplink(i) { return { data: { v: i.bytes[0] * current } }; }',
    ],
  ])('keeps %s apart that two files use under one name without declaring them', async (_what, encoder, decoder) => {
    const script = bundleCodec(getScripts({ encoder, decoder }));
    expect([await encoded(script, 3), await decoded(script, 'uplink', 3)]).toEqual([[30], { v: 300 }]);
    const names = 'JSON.stringify(Object.getOwnPropertyNames(globalThis).sort())';
    const calls = `[decodeUplink({ bytes: [3] }).data.v, encodeDownlink({ data: { v: 3 } }).bytes[0], decodeUplink({ bytes: [4] }).data.v, before === ${names}, typeof Number.prototype.conv]`;
    expect(called(`var before;\nbefore = ${names};\n${script}`, calls, 'sloppy')).toEqual([
      300,
      30,
      400,
      true,
      'undefined',
    ]);
  });

  it('keeps the changes that each file makes during its calls, and does not change the globals of the server', () => {
    const context = createContext({});
    const run = (text: string): unknown => JSON.parse(runInContext(`JSON.stringify(${text})`, context) as string);
    runInContext(
      bundleCodec(getScripts({ encoder: counting('encodeDownlink', 1), decoder: counting('decodeUplink', 10) })),
      context,
    );
    expect(
      run(
        '[typeof count, encodeDownlink(), decodeUplink(), encodeDownlink(), decodeUplink(), typeof count, typeof made]',
      ),
    ).toEqual([
      'undefined',
      ['undefined', 1],
      ['undefined', 10],
      ['object', 2],
      ['object', 20],
      'undefined',
      'undefined',
    ]);
    expect(
      run('[count = 7, encodeDownlink()[1], count, count = 8, decodeUplink()[1], encodeDownlink()[1], count]'),
    ).toEqual([7, 3, 7, 8, 30, 4, 8]);
  });

  it('restores the globals of a file where its function throws, waits, or calls the function of another file', async () => {
    const encoder =
      'SCALE = 10;\nfunction Encoder() { throw new Error("SCALE " + SCALE); }\nasync function encodeDownlink(i) { await null; return { bytes: [i.data.v * SCALE] }; }';
    const decoder =
      'SCALE = 100;\nfunction decodeUplink(i) { encodeDownlink({ data: { v: 1 } }).then(null, function () {}); try { Encoder(); } catch (error) { return { data: { v: SCALE, other: error.message } }; } }';
    const script = bundleCodec(getScripts({ encoder, decoder }));
    expect([await encoded(script, 3), await decoded(script, 'uplink', 3)]).toEqual([
      [30],
      { v: 100, other: 'SCALE 10' },
    ]);
    const context = createContext({});
    runInContext(script, context);
    const [bytes, scale] = (await runInContext(
      'encodeDownlink({ data: { v: 3 } }).then(function (answer) { return [answer.bytes[0], typeof SCALE]; })',
      context,
    )) as unknown[];
    expect([bytes, scale, runInContext('decodeUplink().data.v', context)]).toEqual([30, 'undefined', 100]);
  });

  it('ignores values that are left from before', () => {
    const [first, second] = [
      getScripts({ encoder: 'function Encode() {}', decoder: HELPERS.decoder }),
      getScripts({ encoder: 'function Encoder() {}', decoder: HELPERS.decoder }),
    ].map(bundleCodec);
    expect(
      called(`${first}\n${second}`, '[typeof Encode, typeof Encoder, decodeUplink({ bytes: [3] })]', 'sloppy'),
    ).toEqual(['undefined', 'function', { data: { v: 200 } }]);
  });

  it.each<[string, string, unknown]>([
    ['a line for a shell', `#!/usr/bin/env node\n${ENCODE}`, [7]],
    ['nothing of its role', 'var nothing = 1;', 'no_encoder'],
    [
      'a class instead of a function',
      'class Encoder {}\nclass Other {}\nmodule.exports = { Encode: Other };',
      'no_encoder',
    ],
    ['a class next to a function', 'class Encoder { }\nfunction Encode(port, obj) { return [obj.v]; }', [7]],
    ['an error while it loads', `${ENCODE}\nthrow new Error("no table");`, 'runtime_error: Error: no table'],
    [
      'a return outside of a function',
      `${ENCODE}\nreturn;`,
      'runtime_error: SyntaxError: encoder.js returns outside of a function',
    ],
    [
      'an export that throws',
      'Object.defineProperty(module.exports, "encodeDownlink", { get: function () { throw new Error("no export"); } });',
      'runtime_error: Error: no export',
    ],
    [
      'exports that throw',
      'Object.defineProperty(module, "exports", { get: function () { throw new Error("no exports"); } });',
      'runtime_error: Error: no exports',
    ],
    ['a frozen global object', `"use strict"; Object.freeze(globalThis);\n${ENCODE}`, [7]],
    ['a sealed global object', `Object.seal(this); Object.preventExtensions(globalThis);\n${ENCODE}`, [7]],
    [
      'other built-in objects',
      `Object.keys = Object.getOwnPropertyNames = function () { return []; };\nArray.prototype.forEach = Function.prototype.call = Function.prototype.apply = function () {};\nString.prototype.slice = null;\n${ENCODE}`,
      [7],
    ],
    ['a constant in the global object', `Object.defineProperty(globalThis, "SCALE", { value: 5 });\n${ENCODE}`, [7]],
    ['methods for all objects', `Object.prototype.encodeDownlink = Object.prototype.Decode = 1;\n${ENCODE}`, [7]],
  ])('keeps the other files working next to one with %s', async (_what, encoder, answer) => {
    const decoder =
      'start = 0;\nfunction decodeUplink(input) { var sum = start; input.bytes.forEach(function (b) { sum += b; }); return { data: { sum: sum, keys: Object.keys(input).slice(0, 1), more: typeof ({}).Decode } }; }';
    for (const script of [
      bundleCodec(getScripts({ encoder, decoder })),
      bundleCodec(getScripts({ encoder, decoder, downlinkDecoder: HELPERS.downlinkDecoder })),
    ]) {
      const { output, error } = await fixture.encode(script, { data: { v: 7 } });
      expect(output ? [...output.bytes] : [error?.code, `${error?.code}: ${error?.message}`]).toEqual(
        typeof answer === 'string' ? expect.arrayContaining([answer]) : answer,
      );
      expect(await decoded(script, 'uplink', 3, 4)).toEqual({ sum: 7, keys: ['bytes'], more: 'undefined' });
      expect(
        called(
          script,
          '[decodeUplink({ bytes: [3] }).data.sum, String(Object.freeze).indexOf("native") > 0]',
          'sloppy',
        ),
      ).toEqual([3, true]);
    }
  });

  it('requires no newer language than its files: ECMAScript 5', () => {
    const script = bundleCodec(
      getScripts({
        encoder: 'function Encoder(obj) { return [obj.v]; }',
        decoder: 'function Decoder(bytes) { return { v: bytes[0] }; }',
        downlinkDecoder: 'function decodeDownlink() {}',
      }),
    );
    expect(() => transformSync('var { a } = b;', { target: 'es5', logLevel: 'silent' })).toThrow('es5');
    expect(transformSync(script, { target: 'es5', logLevel: 'silent' }).code).toBe(transformSync(script).code);
  });
});
