import type { CodecError, DecodeRequest } from '../../src/codec';
import { findJsonProblem } from '../../src/kernel/jsonValue';
import { openSandbox } from './sandboxFixture';

const fixture = openSandbox();
afterAll(async () => await fixture.sandbox.stop());

const returning = (value: string): string => `function decodeUplink(input) {\n  return ${value};\n}`;
const older = (value: string): string => `function Decoder(bytes) {\n  return ${value};\n}`;
const nested = (levels: number): string =>
  `(function () { var o = {}; for (var i = 1; i < ${levels}; i++) o = { o: o }; return o; })()`;

const AN_OBJECT = 'it must be an object, such as {temperature: 21.5}';
const TOO_DEEP = 'data is nested deeper than 32 levels; make it flatter';

const failures: readonly (readonly [string, string, Partial<CodecError>])[] = [
  [
    'nothing',
    returning(''),
    { code: 'bad_output', message: 'the decoder returned undefined; it must return {data: {temperature: 21.5}}' },
  ],
  [
    'a number',
    returning('5'),
    { code: 'bad_output', message: 'the decoder returned 5; it must return {data: {temperature: 21.5}}' },
  ],
  [
    'null',
    returning('null'),
    { code: 'bad_output', message: 'the decoder returned null; it must return {data: {temperature: 21.5}}' },
  ],
  [
    'a list',
    returning('[1]'),
    { code: 'bad_output', message: 'the decoder returned a list; it must return {data: {temperature: 21.5}}' },
  ],
  [
    'the data alone',
    returning('{ temperature: 21.5, level: 1 }'),
    { code: 'bad_output', message: `data is undefined (there is temperature, level); ${AN_OBJECT}` },
  ],
  ['an empty object', returning('{}'), { code: 'bad_output', message: `data is undefined; ${AN_OBJECT}` }],
  ['null for data', returning('{ data: null }'), { code: 'bad_output', message: `data is null; ${AN_OBJECT}` }],
  [
    'a list for data',
    returning('{ data: [{ temperature: 1 }] }'),
    { code: 'bad_output', message: `data is a list; ${AN_OBJECT}` },
  ],
  ['a string for data', returning('{ data: "t=1" }'), { code: 'bad_output', message: `data is "t=1"; ${AN_OBJECT}` }],
  ['a number for data', returning('{ data: 21.5 }'), { code: 'bad_output', message: `data is 21.5; ${AN_OBJECT}` }],
  ['false for data', returning('{ data: false }'), { code: 'bad_output', message: `data is false; ${AN_OBJECT}` }],
  [
    'a function for data',
    returning('{ data: function () {} }'),
    { code: 'bad_output', message: `data is a function; ${AN_OBJECT}` },
  ],
  [
    'a typed array for data',
    returning('{ data: new Uint8Array(2) }'),
    { code: 'bad_output', message: `data is a typed array; ${AN_OBJECT}` },
  ],
  [
    'a date for data',
    returning('{ data: new Date(0) }'),
    { code: 'bad_output', message: `data written as JSON is "1970-01-01T00:00:00.000Z"; ${AN_OBJECT}` },
  ],
  [
    'a String object for data',
    returning('{ data: new String("x") }'),
    { code: 'bad_output', message: `data written as JSON is "x"; ${AN_OBJECT}` },
  ],
  [
    'data that claims to be a list',
    returning('{ data: { toJSON: function () { return [1, 2]; } } }'),
    { code: 'bad_output', message: `data written as JSON is [1,2]; ${AN_OBJECT}` },
  ],
  [
    'data that claims to be undefined',
    returning('{ data: { toJSON: function () {} } }'),
    { code: 'bad_output', message: `data written as JSON is nothing; ${AN_OBJECT}` },
  ],
  [
    'nothing in an older form',
    older(''),
    {
      code: 'bad_output',
      message: 'the decoder returned undefined; it must return an object, such as {temperature: 21.5}',
    },
  ],
  [
    'a list in an older form',
    older('bytes'),
    {
      code: 'bad_output',
      message: 'the decoder returned a list; it must return an object, such as {temperature: 21.5}',
    },
  ],
  [
    'a number in an older form',
    older('bytes[0]'),
    { code: 'bad_output', message: 'the decoder returned 1; it must return an object, such as {temperature: 21.5}' },
  ],
  [
    'a promise that never settles',
    returning('new Promise(function () {})'),
    {
      code: 'bad_output',
      message: 'the decoder returned a promise that is never settled; it must return {data: {temperature: 21.5}}',
    },
  ],
  [
    'a promise that never settles in an older form',
    older('new Promise(function () {})'),
    {
      code: 'bad_output',
      message:
        'the decoder returned a promise that is never settled; it must return an object, such as {temperature: 21.5}',
    },
  ],
  [
    'an object that only looks like a promise',
    returning('{ then: function (ok) { ok({ data: {} }); } }'),
    { code: 'bad_output', message: `data is undefined (there is then); ${AN_OBJECT}` },
  ],
  [
    'a big integer',
    returning('{ data: { a: [{ count: 12n }] } }'),
    { code: 'bad_output', message: 'data.a[0].count is 12n; JSON has no such numbers: return Number(...) of it' },
  ],
  [
    'a circular reference',
    returning('(function () { var d = { name: "d", list: [] }; d.list.push({ back: d }); return { data: d }; })()'),
    { code: 'bad_output', message: 'data.list[0].back is an object that holds it; return no circles' },
  ],
  [
    'an object that contains itself',
    older('(function () { var d = {}; d.self = d; return d; })()'),
    { code: 'bad_output', message: 'data.self is an object that holds it; return no circles' },
  ],
  ['33 levels', returning(`{ data: ${nested(33)} }`), { code: 'bad_output', message: TOO_DEEP }],
  [
    'a value on level 33',
    older(`{ o: ${nested(31).replace('var o = {}', 'var o = { v: 1 }')} }`),
    { code: 'bad_output', message: TOO_DEEP },
  ],
  ['100,000 levels', returning(`{ data: ${nested(100_000)} }`), { code: 'bad_output', message: TOO_DEEP }],
  [
    '100,000 levels of lists',
    returning('{ data: { l: (function () { var l = []; for (var i = 0; i < 1e5; i++) l = [l]; return l; })() } }'),
    { code: 'bad_output', message: TOO_DEEP },
  ],
  [
    'a string of more than 64 KiB',
    returning('{ data: { t: "x".repeat(65529) } }'),
    { code: 'too_large', message: 'data has 65537 bytes as JSON: the maximum is 65536' },
  ],
  [
    'strings of 100 MB in total',
    returning('{ data: { l: new Array(100).fill("x".repeat(1e6)) } }'),
    { code: 'too_large', message: 'data is larger than 65536 bytes as JSON; return less' },
  ],
  [
    'a string with more bytes than characters',
    returning('{ data: { t: "\u00e9".repeat(40000) } }'),
    { code: 'too_large', message: 'data has 80008 bytes as JSON: the maximum is 65536' },
  ],
  ['a name of more than 64 KiB', returning('{ data: { ["x".repeat(1e6)]: 1 } }'), { code: 'too_large' }],
  [
    'the same object many times',
    returning(
      '(function () { var o = { v: 1 }; for (var i = 0; i < 28; i++) o = { a: o, b: o }; return { data: o }; })()',
    ),
    { code: 'too_large' },
  ],
  ['a list of 2 ** 28 holes', returning('{ data: { l: new Array(2 ** 28) } }'), { code: 'too_large' }],
  [
    'a member __proto__',
    returning('{ data: JSON.parse(\'{"a": {"__proto__": {"isAdmin": true}}}\') }'),
    { code: 'bad_output', message: 'data has the key "__proto__", which is not allowed: use another name' },
  ],
  [
    'half of a surrogate pair',
    returning('{ data: { t: "\\ud83d" } }'),
    { code: 'bad_output', message: 'data contains an unpaired surrogate: use well-formed Unicode text' },
  ],
  ['half of a surrogate pair in a name', returning('{ data: { "\\ude00": 1 } }'), { code: 'bad_output' }],
  [
    'errors that it returns',
    returning('{ errors: ["unknown frame", { at: 3 }] }'),
    { code: 'decoder_errors', message: 'unknown frame; {"at":3}' },
  ],
  [
    'errors together with data',
    returning('{ data: { a: 1 }, errors: "too short" }'),
    { code: 'decoder_errors', message: 'too short' },
  ],
  [
    'no decoder',
    'function encodeDownlink() { return []; }\nfunction decodeDownlink() { return { data: {} }; }',
    {
      code: 'no_decoder',
      message:
        'the script defines no uplink decoder: define function decodeUplink(input) that returns {data: {temperature: 21.5}}',
    },
  ],
  ['a decoder that is a class', 'class Decoder { static read() {} }', { code: 'no_decoder' }],
  ['a decoder that is not a function', 'var decodeUplink = { Decoder: 1 };', { code: 'no_decoder' }],
  ['an empty script', '', { code: 'no_decoder', lineNumber: undefined }],
  ['wrong syntax', 'var a = 1;\n\nfunction decodeUplink( {', { code: 'syntax_error', lineNumber: 3 }],
  [
    'a throw in a nested function',
    'function read(bytes) {\n  return bytes.none.value;\n}\nfunction decodeUplink(input) {\n  return { data: { v: read(input.bytes) } };\n}',
    { code: 'runtime_error', message: "TypeError: cannot read property 'value' of undefined", lineNumber: 2 },
  ],
  ['a throw in an older form', older('null.x'), { code: 'runtime_error', lineNumber: 2 }],
  [
    'a throw while its data are read',
    returning('{ data: {\n    get level() {\n      throw new Error("gone");\n    } } }'),
    { code: 'runtime_error', message: 'Error: gone', lineNumber: 4 },
  ],
  [
    'a toJSON that throws',
    returning('{ data: { a: {\n    toJSON: function () { throw new RangeError("mine"); } } } }'),
    { code: 'runtime_error', message: 'RangeError: mine', lineNumber: 3 },
  ],
  [
    'a rejection',
    'async function decodeUplink() {\n  await 1;\n  throw new TypeError("late");\n}',
    { code: 'runtime_error', message: 'TypeError: late', lineNumber: 3 },
  ],
  [
    'a throw of a value that cannot be stored',
    returning('(function () { throw new Error("a\\ud800b\\u0000\\u001b[2J\\u0085\\tc\\nd"); })()'),
    { code: 'runtime_error', message: 'Error: a\uFFFDb\\u0000\\u001b[2J\\u0085\\u0009c\nd' },
  ],
  [
    'errors that cannot be stored',
    returning('{ errors: ["\\udc00", "\\u0000"] }'),
    { code: 'decoder_errors', message: '\uFFFD; \\u0000' },
  ],
  [
    'a thrown string',
    'function Decoder() { throw "too short"; }',
    { code: 'runtime_error', message: 'too short', lineNumber: undefined },
  ],
];

describe('the error of a decoder', () => {
  it.each(failures)('is reported: %s', async (_what, script, expected) => {
    const { data, error, isServerFault } = await fixture.decode(script);
    expect([data, isServerFault]).toEqual([undefined, false]);
    expect(error).toMatchObject(expected);
  });

  it('is returned together with the warnings and the log', async () => {
    const result = await fixture.decode(
      'function decodeUplink() { console.warn("a", 1); return { data: null, warnings: ["low"] }; }',
    );
    expect(result).toMatchObject({ warnings: ['low'], logs: ['a 1'], error: { code: 'bad_output' } });
  });

  it('leaves the thread running', async () => {
    const before = fixture.events.length;
    for (const [, script] of failures.filter(([, , { code }]) => code === 'too_large')) await fixture.decode(script);
    expect(fixture.events).toHaveLength(before);
  });
});

describe('the data of a decoder', () => {
  it('has at most 32 levels', async () => {
    const data = await fixture.data(returning(`{ data: ${nested(32)} }`));
    expect(findJsonProblem(data)).toBeUndefined();
    expect(JSON.stringify(data).length).toBe('{"o":'.length * 31 + 2 + 31);
  });

  it('omits what JSON omits, even on a level that is too deep', async () => {
    const data = await fixture.data(
      returning(`{ data: ${nested(32).replace('var o = {}', 'var o = { f: function () {}, u: undefined }')} }`),
    );
    expect(findJsonProblem(data)).toBeUndefined();
  });

  it('has at most 64 KiB', async () => {
    expect(await fixture.data(returning('{ data: { t: "x".repeat(65528) } }'))).toEqual({ t: 'x'.repeat(65_528) });
    expect(
      Object.keys(
        await fixture.data(
          older('(function () { var d = {}; for (var i = 0; i < 5000; i++) d["k" + i] = i; return d; })()'),
        ),
      ),
    ).toHaveLength(5000);
  });

  it('may contain the same object twice, but not inside itself', async () => {
    expect(
      await fixture.data(
        returning('(function () { var p = { v: 1 }; return { data: { a: p, b: [p, p], c: { p: p } } }; })()'),
      ),
    ).toEqual({ a: { v: 1 }, b: [{ v: 1 }, { v: 1 }], c: { p: { v: 1 } } });
  });

  it('supports every character', async () => {
    expect(await fixture.data(returning(String.raw`{ data: { "\u0000\"\\\n": "\u2028 \ud83d\ude00 é" } }`))).toEqual({
      '\0"\\\n': '\u2028 \u{1f600} é',
    });
  });

  it('is read only once', async () => {
    const counting =
      'var reads = 0; function decodeUplink() { return { get data() { reads += 1; return { get level() { return ++reads; } }; } }; }';
    expect(await fixture.data(counting)).toEqual({ level: 2 });
  });
});

describe('size limits', () => {
  const SMALL = 'function Decoder() { return {}; }';
  const tooLarge = async (request: Partial<DecodeRequest>, script = SMALL): Promise<string | undefined> => {
    const { error } = await fixture.decode(script, request);
    return error && `${error.code}: ${error.message}`;
  };

  it('allow payloads of up to 64 KiB', async () => {
    expect(
      await fixture.data('function Decoder(bytes) { return { n: bytes.length, last: bytes[65535] }; }', {
        bytes: new Uint8Array(65_536).fill(255),
      }),
    ).toEqual({ n: 65_536, last: 255 });
    expect(await tooLarge({ bytes: new Uint8Array(65_537) })).toBe(
      'too_large: the payload has 65537 bytes: the maximum is 65536',
    );
  });

  it('are the same for variables and scripts as for encoders', async () => {
    expect(await tooLarge({ variables: { a: 'x'.repeat(65_536) } })).toBe(
      "too_large: the decoder's input (without the bytes) has 65558 bytes as JSON: the maximum is 65536",
    );
    expect(await tooLarge({}, `${SMALL}//${'x'.repeat(262_144)}`)).toMatch(
      /^too_large: the script has \d+ bytes: the maximum is 262144$/,
    );
  });
});
