import { openSandbox } from './sandboxFixture';

const fixture = openSandbox();
afterAll(async () => await fixture.sandbox.stop());

/** A lookup table of `kib` KiB, as some vendors ship one, and an encoder that reads from it. */
function withTable(kib: number): string {
  const rows: string[] = [];
  for (let size = 0, at = 0; size < kib * 1024; at += 1) {
    const row = `  { id: ${at}, name: "register ${at}", address: 0x${at.toString(16)}, length: ${at % 4}, unit: "u${at % 7}" }`;
    rows.push(row);
    size += row.length;
  }
  return `var TABLE = [\n${rows.join(',\n')}\n];\nfunction encodeDownlink(input) { return { bytes: [TABLE.length > 100 ? TABLE[input.data.v].id : 0] }; }`;
}

const styles: readonly (readonly [string, string, readonly number[]])[] = [
  ['the usual form', 'function encodeDownlink(input) { return { bytes: [1, input.data.v], fPort: 2 }; }', [1, 7]],
  [
    'ES5 prototypes',
    'function Writer() { this.out = []; }\nWriter.prototype.u16 = function (v) { this.out.push(v >> 8 & 0xff, v & 0xff); return this; };\nfunction encodeDownlink(input) { return { bytes: new Writer().u16(input.data.v).u16(258).out }; }',
    [0, 7, 1, 2],
  ],
  [
    'undeclared globals',
    'function encodeDownlink(input) { out = []; for (i = 0; i < 3; i++) out[i] = input.data.v + i; return { bytes: out }; }',
    [7, 8, 9],
  ],
  [
    'octal literals',
    'function encodeDownlink() { return { bytes: [010, 0o17, "\\101".charCodeAt(0)] }; }',
    [8, 15, 65],
  ],
  [
    'with, arguments and a caller without this',
    'function f() { return this === undefined ? 1 : arguments.length; }\nfunction encodeDownlink(input) { with (input.data) { return { bytes: [v, f(1, 2)] }; } }',
    [7, 2],
  ],
  [
    'classes',
    'class Frame { #bytes = []; static of(v) { const f = new Frame(); f.#bytes.push(v ?? 0); return f; } get bytes() { return [...this.#bytes]; } }\nclass Long extends Frame {}\nconst encodeDownlink = ({ data: { v } }) => ({ bytes: Long.of(v).bytes });',
    [7],
  ],
  [
    'typed arrays',
    'function encodeDownlink(input) { var b = new ArrayBuffer(4); new DataView(b).setFloat32(0, 1.5); return { bytes: new Uint8Array(b) }; }',
    [0x3f, 0xc0, 0, 0],
  ],
  ['a typed array of words', 'function encodeDownlink() { return { bytes: new Uint16Array([1, 255]) }; }', [1, 255]],
  [
    'Buffer',
    'function encodeDownlink(input) { var b = Buffer.alloc(3); b.writeUInt16BE(0x0102, 0); b.writeUInt8(input.data.v, 2); return { bytes: Buffer.concat([b, Buffer.from("ff", "hex")]) }; }',
    [1, 2, 7, 255],
  ],
  [
    'Buffer as a list',
    'function encodeDownlink() { return { bytes: Array.from(Buffer.from("AQI=", "base64")) }; }',
    [1, 2],
  ],
  [
    'base64 and strings',
    'function encodeDownlink() { return { bytes: new TextEncoder().encode(atob(btoa("a")) + new TextDecoder().decode(new Uint8Array([0xc3, 0xa9]))) }; }',
    [97, 0xc3, 0xa9],
  ],
  ['a table of 100 KiB', withTable(100), [7]],
  [
    'a guard of module.exports',
    'function encodeDownlink(input) { return { bytes: [input.data.v] }; }\nif (typeof module !== "undefined" && module.exports) { module.exports = { encodeDownlink: encodeDownlink }; }',
    [7],
  ],
  [
    'a guard without if',
    'module.exports = { encodeDownlink: function () { return { bytes: [1] }; } };\nexports.other = 2;',
    [1],
  ],
  [
    'an encoder that is only exported',
    'exports.encodeDownlink = function (input) { return { bytes: [input.data.v] }; };',
    [7],
  ],
  ['an older encoder that is only exported', 'module.exports.Encode = function (fPort, obj) { return [obj.v]; };', [7]],
  [
    'its own module',
    'var module = { exports: {} };\n(function (exports) { exports.encodeDownlink = function () { return [3]; }; })(module.exports);',
    [3],
  ],
  [
    'redeclared names of the server',
    'let module = 1, exports = 2, console = 3; const Buffer = 4, atob = 5; class TextEncoder {}\nfunction encodeDownlink() { return [module, exports, console, Buffer, atob]; }',
    [1, 2, 3, 4, 5],
  ],
  ['this at the top level', 'this.encodeDownlink = (input) => ({ bytes: [input.data.v] });', [7]],
  ['a function in a block', '{ function encodeDownlink() { return { bytes: [4] }; } }', [4]],
  [
    'strict by its own directive',
    '"use strict";\nfunction encodeDownlink(input) { return { bytes: [input.data.v] }; }',
    [7],
  ],
  [
    'async',
    'async function encodeDownlink(input) { await null; return { bytes: [await Promise.resolve(input.data.v)] }; }',
    [7],
  ],
  [
    'promise jobs at the top level',
    'var ready = 0; Promise.resolve().then(function () { ready = 9; });\nfunction encodeDownlink() { return [ready]; }',
    [9],
  ],
  ['an HTML comment and an old hashbang', '<!-- old browsers\nfunction encodeDownlink() { return [5]; }\n--> end', [5]],
  ['CRLF and a byte order mark', '\uFEFFfunction encodeDownlink() {\r\n  return { bytes: [6] };\r\n}\r\n', [6]],
  [
    'a byte order mark and a hashbang',
    '\uFEFF#!/usr/bin/env node\r\nfunction encodeDownlink() { return { bytes: [6] }; }',
    [6],
  ],
  ['CRLF in a template literal', 'function encodeDownlink() { return [`\r\n`.length, "a\\\r\nb".length]; }', [1, 2]],
  [
    'require of buffer',
    'const { Buffer } = require("buffer");\nfunction encodeDownlink(input) { return { bytes: Buffer.from([input.data.v]) }; }',
    [7],
  ],
  [
    'a guarded require of buffer',
    'if (typeof Buffer === "undefined") { var Buffer = require("buffer").Buffer; }\nfunction encodeDownlink() { return { bytes: Buffer.from("0a", "hex") }; }',
    [10],
  ],
  [
    'a require of something else that is caught',
    'try { var fs = require("fs"); } catch (e) {}\nfunction encodeDownlink(input) { return { bytes: [input.data.v] }; }',
    [7],
  ],
  [
    'the export is the encoder',
    'module.exports = function encodeDownlink(input) { return { bytes: [input.data.v] }; };',
    [7],
  ],
  [
    'the default of a module',
    'exports.__esModule = true;\nexports.default = { encodeDownlink: function (input) { return { bytes: [input.data.v] }; } };',
    [7],
  ],
  [
    'the default of a module is the encoder',
    'exports.default = function encodeDownlink(input) { return { bytes: [input.data.v] }; };',
    [7],
  ],
  [
    'other names of the global object',
    'self.a = 1; global.b = 2; globalThis.c = 3;\nfunction encodeDownlink() { return [a, b, c, self === global && global === globalThis ? 1 : 0]; }',
    [1, 2, 3, 1],
  ],
  [
    'a class beside the encoder',
    'class Encoder { encode() { return [8]; } }\nfunction encodeDownlink() { return { bytes: new Encoder().encode() }; }',
    [8],
  ],
  ['empty errors: false', 'function encodeDownlink() { return { bytes: [1], errors: false }; }', [1]],
  ['empty errors: an empty list', 'function encodeDownlink() { return { bytes: [1], errors: [] }; }', [1]],
  [
    'empty errors: an empty string in a list',
    'function encodeDownlink() { return { bytes: [1], errors: ["", ""] }; }',
    [1],
  ],
  ['empty errors: an empty object', 'function encodeDownlink() { return { bytes: [1], errors: {} }; }', [1]],
  ['no bytes at all', 'function encodeDownlink() { return { bytes: [] }; }', []],
];

describe('an encoder', () => {
  it.each(styles)('runs: %s', async (_style, script, expected) => {
    expect(await fixture.bytes(script)).toEqual(expected);
  });

  it('may have the form Encode(fPort, obj, variables)', async () => {
    const script = 'function Encode(fPort, obj, variables) { return [fPort, obj.v, variables.offset * 1]; }';
    expect(await fixture.bytes(script, { fPort: 5, variables: { offset: '12' } })).toEqual([5, 7, 12]);
  });

  it('may have the form Encoder(obj, fPort)', async () => {
    expect(await fixture.bytes('function Encoder(object, port) { return [object.v, port]; }', { fPort: 6 })).toEqual([
      7, 6,
    ]);
  });

  it('is used in its newest form when it has several', async () => {
    expect(
      await fixture.bytes(
        'function Encoder() { return [1]; }\nfunction Encode() { return [2]; }\nfunction encodeDownlink() { return [3]; }',
      ),
    ).toEqual([3]);
  });

  it('receives data, fPort and variables', async () => {
    const script = 'function encodeDownlink(input) { console.log(input); console.log("fPort" in input); return []; }';
    const full = await fixture.encode(script, {
      data: { list: [1, null, 'x'], ['__proto__']: true },
      fPort: 9,
      variables: { a: 'b' },
    });
    expect(full.logs).toEqual([
      '{"data":{"list":[1,null,"x"],"__proto__":true},"fPort":9,"variables":{"a":"b"}}',
      'true',
    ]);
    const bare = await fixture.encode(script, { data: 'text' });
    expect(bare.logs).toEqual(['{"data":"text","variables":{}}', 'false']);
  });

  it('may return an fPort', async () => {
    const { output } = await fixture.encode(
      'function encodeDownlink(input) { return { bytes: [1], fPort: input.fPort + 1 }; }',
      { fPort: 10 },
    );
    expect(output?.fPort).toBe(11);
  });

  it('has no access to timers, precise clocks or the server', async () => {
    const names = [
      'setTimeout',
      'setInterval',
      'setImmediate',
      'queueMicrotask',
      'process',
      'performance',
      'fetch',
      'WebAssembly',
      'Atomics',
      'Worker',
      'std',
      'os',
      'print',
      'makeGuest',
    ];
    const script = `function encodeDownlink() { console.log([${names.map((name) => `typeof ${name}`).join()}].join()); return []; }`;
    const { logs } = await fixture.encode(script);
    expect(logs).toEqual([names.map(() => 'undefined').join()]);
  });
});
