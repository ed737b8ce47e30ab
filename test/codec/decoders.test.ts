import type { JsonObject } from '../../src/kernel/jsonValue';
import { openSandbox } from './sandboxFixture';

const fixture = openSandbox();
afterAll(async () => await fixture.sandbox.stop());

/** A lookup table of `kib` KiB, as some vendors ship one, and a decoder that reads from it. */
function withTable(kib: number): string {
  const rows: string[] = [];
  for (let size = 0, at = 0; size < kib * 1024; at += 1) {
    const row = `  { id: ${at}, name: "channel ${at}", scale: ${at % 9} / 10, unit: "u${at % 7}" }`;
    rows.push(row);
    size += row.length;
  }
  return `var TABLE = [\n${rows.join(',\n')}\n];\nfunction decodeUplink(input) { var row = TABLE[input.bytes[1]]; return { data: { [row.unit]: row.id } }; }`;
}

const styles: readonly (readonly [string, string, JsonObject])[] = [
  [
    'the usual form',
    'function decodeUplink(input) { return { data: { level: input.bytes[1], first: input.bytes[0] }, warnings: [], errors: [] }; }',
    { level: 40, first: 1 },
  ],
  [
    'the form Decode(fPort, bytes, variables)',
    'function Decode(fPort, bytes, variables) { return { level: bytes[1], port: typeof fPort, vars: variables }; }',
    { level: 40, port: 'undefined', vars: {} },
  ],
  [
    'the form Decoder(bytes, fPort)',
    'function Decoder(bytes, port) { var decoded = {}; decoded.level = bytes[1]; return decoded; }',
    { level: 40 },
  ],
  [
    'the new form preferred to an older one',
    'function Decoder(bytes) { return { level: bytes[1] }; }\nfunction decodeUplink(input) { return { data: Decoder(input.bytes, input.fPort) }; }',
    { level: 40 },
  ],
  [
    'both older forms',
    'function Decoder() { return { form: "Decoder" }; }\nfunction Decode() { return { form: "Decode" }; }',
    { form: 'Decode' },
  ],
  [
    'an additional encoder',
    'function encodeDownlink() { return []; }\nfunction Encoder() { return []; }\nfunction Decoder(bytes) { return { level: bytes[1] }; }',
    { level: 40 },
  ],
  [
    'ES5 prototypes',
    'function Reader(bytes) { this.bytes = bytes; this.at = 0; }\nReader.prototype.u8 = function () { return this.bytes[this.at++]; };\nfunction decodeUplink(input) { var r = new Reader(input.bytes); return { data: { a: r.u8(), b: r.u8() } }; }',
    { a: 1, b: 40 },
  ],
  [
    'undeclared globals',
    'function Decoder(bytes) { out = {}; for (i = 0; i < bytes.length; i++) out["b" + i] = bytes[i]; return out; }',
    { b0: 1, b1: 40 },
  ],
  ['octal literals', 'function decodeUplink() { return { data: { a: 010, b: "\\101" } }; }', { a: 8, b: 'A' }],
  [
    'with and arguments',
    'function Decode() { with (Math) { return { n: arguments.length, m: max(1, 2) }; } }',
    { n: 3, m: 2 },
  ],
  [
    'classes',
    'class Frame { #bytes; constructor(bytes) { this.#bytes = bytes; } get level() { return this.#bytes[1]; } }\nconst decodeUplink = ({ bytes }) => ({ data: { level: new Frame(bytes).level } });',
    { level: 40 },
  ],
  [
    'instances of a class with toJSON',
    'class Reading { constructor(v) { this.v = v; } toJSON() { return { value: this.v }; } }\nfunction decodeUplink(input) { return { data: { r: new Reading(input.bytes[1]) } }; }',
    { r: { value: 40 } },
  ],
  [
    'an instance of a class as data',
    'class Reading { constructor(v) { this.v = v; } get twice() { return 2 * this.v; } }\nfunction decodeUplink(input) { return { data: new Reading(input.bytes[1]) }; }',
    { v: 40 },
  ],
  [
    'Buffer',
    'function decodeUplink(input) { var b = Buffer.from(input.bytes); return { data: { word: b.readUInt16BE(0), hex: b.toString("hex") } }; }',
    { word: 296, hex: '0128' },
  ],
  [
    'require of buffer',
    'const { Buffer } = require("buffer");\nfunction Decoder(bytes) { return { word: Buffer.from(bytes).readUInt16LE(0) }; }',
    { word: 10_241 },
  ],
  [
    'base64 and strings',
    'function decodeUplink(input) { return { data: { b: btoa(String.fromCharCode.apply(null, input.bytes)), t: new TextDecoder().decode(new Uint8Array(input.bytes)) } }; }',
    { b: 'ASg=', t: '\u0001(' },
  ],
  [
    'typed arrays',
    'function decodeUplink(input) { var view = new DataView(new Uint8Array(input.bytes).buffer); return { data: { word: view.getInt16(0) } }; }',
    { word: 296 },
  ],
  [
    'list methods',
    'function decodeUplink(input) { return { data: { sum: input.bytes.reduce((a, b) => a + b, 0), last: input.bytes.slice(-1), list: Array.isArray(input.bytes), none: input.bytes.readUInt8 === undefined } }; }',
    { sum: 41, last: [40], list: true, none: true },
  ],
  [
    'bytes that it removes',
    'function Decoder(bytes) { var out = {}; while (bytes.length > 0) out[bytes.length] = bytes.shift(); return out; }',
    { 1: 40, 2: 1 },
  ],
  ['a table of 100 KiB', withTable(100), { u5: 40 }],
  [
    'a guard of module.exports',
    'function decodeUplink(input) { return { data: { level: input.bytes[1] } }; }\nif (typeof module !== "undefined") module.exports = { decodeUplink: decodeUplink };',
    { level: 40 },
  ],
  [
    'a decoder that is only exported',
    'exports.decodeUplink = function (input) { return { data: { level: input.bytes[1] } }; };',
    { level: 40 },
  ],
  [
    'the export is the decoder',
    'module.exports = function Decoder(bytes) { return { level: bytes[1] }; };',
    { level: 40 },
  ],
  [
    'the default of a module',
    'exports.default = { decodeUplink: function (input) { return { data: { level: input.bytes[1] } }; } };',
    { level: 40 },
  ],
  [
    'async',
    'async function decodeUplink(input) { await null; return { data: { level: await Promise.resolve(input.bytes[1]) } }; }',
    { level: 40 },
  ],
  ['async in an older form', 'async function Decode(fPort, bytes) { return { level: bytes[1] }; }', { level: 40 }],
  [
    'a class beside the decoder',
    'class Decoder { read(b) { return b[1]; } }\nfunction decodeUplink(input) { return { data: { level: new Decoder().read(input.bytes) } }; }',
    { level: 40 },
  ],
  [
    'CRLF and a byte order mark',
    '\uFEFFfunction decodeUplink(input) {\r\n  return { data: { level: input.bytes[1] } };\r\n}\r\n',
    { level: 40 },
  ],
  ['empty errors', 'function decodeUplink() { return { data: {}, errors: ["", ""], warnings: null }; }', {}],
  ['data with unknown members', 'function decodeUplink() { return { data: { a: 1 }, fPort: 3, meta: {} }; }', { a: 1 }],
  [
    'an older form whose object has a member data',
    'function Decoder() { return { data: { a: 1 }, errors: ["kept"] }; }',
    { data: { a: 1 }, errors: ['kept'] },
  ],
  [
    'names as members that are special elsewhere',
    'function Decoder() { return { constructor: 1, toString: "t", hasOwnProperty: null, length: 2, "": 0 }; }',
    { constructor: 1, toString: 't', hasOwnProperty: null, length: 2, '': 0 },
  ],
  [
    'dates, NaN, and values that JSON omits',
    'function Decoder() { return { at: new Date(0), never: new Date(NaN), nan: NaN, inf: -Infinity, zero: -0, none: undefined, call: function () {}, list: [undefined, function () {}] }; }',
    { at: '1970-01-01T00:00:00.000Z', never: null, nan: null, inf: null, zero: 0, list: [null, null] },
  ],
];

describe('a decoder', () => {
  it.each(styles)('runs: %s', async (_style, script, expected) => {
    expect(await fixture.data(script)).toEqual(expected);
  });

  const all =
    'function decodeUplink(i) { return { data: { keys: Object.keys(i), fPort: i.fPort, at: i.recvTime && i.recvTime.toISOString(), date: i.recvTime instanceof Date, v: i.variables } }; }';

  it('receives bytes, fPort, recvTime and variables', async () => {
    const recvTime = Date.UTC(2026, 10, 3, 4, 5, 6, 789);
    expect(await fixture.data(all, { fPort: 0, recvTime, variables: { scale: '10' } })).toEqual({
      keys: ['bytes', 'fPort', 'recvTime', 'variables'],
      fPort: 0,
      at: '2026-11-03T04:05:06.789Z',
      date: true,
      v: { scale: '10' },
    });
  });

  it('receives no fPort and no recvTime when the uplink has none', async () => {
    expect(await fixture.data(all)).toEqual({ keys: ['bytes', 'variables'], date: false, v: {} });
  });

  it('accepts every byte value, and an empty payload', async () => {
    const echo = 'function Decode(fPort, bytes) { return { fPort: fPort, bytes: bytes }; }';
    const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
    expect(await fixture.data(echo, { bytes, fPort: 7 })).toEqual({ fPort: 7, bytes: [...bytes] });
    expect(await fixture.data(echo, { bytes: new Uint8Array() })).toEqual({ bytes: [] });
  });

  it('receives only the bytes of a view on a larger buffer', async () => {
    expect(
      await fixture.data('function Decoder(bytes) { return { bytes: bytes }; }', {
        bytes: Buffer.from('ff0128ff', 'hex').subarray(1, 3),
      }),
    ).toEqual({ bytes: [1, 40] });
  });

  it('decodes downlinks with decodeDownlink only', async () => {
    const script =
      'function decodeDownlink(input) { return { data: { level: input.bytes[1], port: input.fPort } }; }\nfunction decodeUplink() { return { data: { wrong: 1 } }; }\nfunction Decoder() { return { wrong: 2 }; }';
    expect(await fixture.data(script, { direction: 'downlink', fPort: 9 })).toEqual({ level: 40, port: 9 });
    const { error } = await fixture.decode(
      'function decodeUplink() { return { data: {} }; }\nfunction Decoder() { return {}; }',
      { direction: 'downlink' },
    );
    expect(error).toEqual({
      code: 'no_decoder',
      message:
        'the script defines no downlink decoder: define function decodeDownlink(input) that returns {data: {temperature: 21.5}}',
      lineNumber: undefined,
    });
  });

  it('returns the numbers that JSON does not have, with the keys that lead to them', async () => {
    const { data, nonFinite } = await fixture.decode(
      'function decodeUplink() { return { data: { "a.b": [1, { c: NaN }], d: -Infinity, f: 1e308 * 10, e: 0 } }; }',
    );
    expect(data).toEqual({ 'a.b': [1, { c: null }], d: null, f: null, e: 0 });
    expect(nonFinite).toEqual([
      { path: ['a.b', '1', 'c'], text: 'NaN' },
      { path: ['d'], text: '-Infinity' },
      { path: ['f'], text: 'Infinity' },
    ]);
  });

  it('returns warnings, logs and its duration with the data', async () => {
    const result = await fixture.decode(
      'function decodeUplink() { console.log("a", 1); return { data: { b: 2 }, warnings: ["low", 5] }; }',
    );
    expect(result).toEqual({
      data: { b: 2 },
      warnings: ['low', '5'],
      nonFinite: [],
      logs: ['a 1'],
      executionTimeMs: expect.any(Number) as number,
      error: undefined,
      isServerFault: false,
    });
    expect(result.executionTimeMs).toBeGreaterThan(0);
  });
});
