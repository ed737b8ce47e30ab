import type { CodecError } from '../../src/codec';
import { openSandbox } from './sandboxFixture';

const fixture = openSandbox();
afterAll(async () => await fixture.sandbox.stop());

const returning = (value: string): string => `function encodeDownlink(input) {\n  return ${value};\n}`;

const failures: readonly (readonly [string, string, Partial<CodecError>])[] = [
  [
    'a byte above 255',
    returning('{ bytes: [1, 256] }'),
    { code: 'bad_output', message: 'bytes[1] is 256; every byte must be an integer from 0 to 255' },
  ],
  [
    'a byte below 0',
    returning('{ bytes: new Int8Array([-1]) }'),
    { code: 'bad_output', message: 'bytes[0] is -1; every byte must be an integer from 0 to 255' },
  ],
  [
    'a fraction',
    returning('{ bytes: [1.5] }'),
    { code: 'bad_output', message: 'bytes[0] is 1.5; every byte must be an integer from 0 to 255' },
  ],
  [
    'not a number',
    returning('{ bytes: [NaN] }'),
    { code: 'bad_output', message: 'bytes[0] is NaN; every byte must be an integer from 0 to 255' },
  ],
  [
    'a string among the bytes',
    returning('[0, 1, "12"]'),
    { code: 'bad_output', message: 'bytes[2] is "12"; every byte must be an integer from 0 to 255' },
  ],
  [
    'a hole',
    returning('{ bytes: [1, , 2] }'),
    { code: 'bad_output', message: 'bytes[1] is undefined; every byte must be an integer from 0 to 255' },
  ],
  [
    'an object among the bytes',
    returning('{ bytes: [{ valueOf: function () { return 1; } }] }'),
    { code: 'bad_output', message: 'bytes[0] is an object; every byte must be an integer from 0 to 255' },
  ],
  [
    'big integers',
    returning('{ bytes: new BigUint64Array(1) }'),
    { code: 'bad_output', message: 'bytes[0] is 0n; every byte must be an integer from 0 to 255' },
  ],
  [
    'a string for bytes',
    returning('{ bytes: "0102" }'),
    { code: 'bad_output', message: 'bytes is "0102"; it must be a list of integers from 0 to 255 or a typed array' },
  ],
  [
    'an object that only looks like a list',
    returning('{ bytes: { length: 1, 0: 1 } }'),
    { code: 'bad_output', message: 'bytes is an object; it must be a list of integers from 0 to 255 or a typed array' },
  ],
  [
    'an ArrayBuffer',
    returning('{ bytes: new ArrayBuffer(2) }'),
    { code: 'bad_output', message: 'bytes is an object; it must be a list of integers from 0 to 255 or a typed array' },
  ],
  [
    'no bytes',
    returning('{ fPort: 1 }'),
    {
      code: 'bad_output',
      message: 'bytes is undefined (there is fPort); it must be a list of integers from 0 to 255 or a typed array',
    },
  ],
  [
    'the field error instead of errors',
    returning('{ error: "x" }'),
    {
      code: 'bad_output',
      message: 'bytes is undefined (there is error); it must be a list of integers from 0 to 255 or a typed array',
    },
  ],
  [
    'an empty object',
    returning('{}'),
    { code: 'bad_output', message: 'bytes is undefined; it must be a list of integers from 0 to 255 or a typed array' },
  ],
  [
    'an object that only looks like a promise',
    returning('{ then: function (ok) { ok([1]); } }'),
    {
      code: 'bad_output',
      message: 'bytes is undefined (there is then); it must be a list of integers from 0 to 255 or a typed array',
    },
  ],
  [
    'a promise that cannot be awaited',
    'var p = Promise.resolve([1]);\np.constructor = { [Symbol.species]: function () { throw new Error("mine"); } };\nfunction encodeDownlink() { return p; }',
    { code: 'runtime_error', message: 'Error: mine', lineNumber: 2 },
  ],
  [
    'a require of a file',
    'var fs = require("fs");',
    { code: 'runtime_error', message: 'Error: require knows only "buffer"', lineNumber: 1 },
  ],
  ['a class for an encoder', 'class Encoder { static encode() { return [1]; } }', { code: 'no_encoder' }],
  [
    'nothing',
    returning(''),
    { code: 'bad_output', message: 'the encoder returned undefined; it must return {bytes: [1, 2, 3]}' },
  ],
  [
    'a number',
    returning('5'),
    { code: 'bad_output', message: 'the encoder returned 5; it must return {bytes: [1, 2, 3]}' },
  ],
  [
    'a wrong fPort',
    returning('{ bytes: [1], fPort: 224 }'),
    { code: 'bad_output', message: 'fPort is 224; it must be an integer from 1 to 223, or left out' },
  ],
  [
    'an fPort as a string',
    returning('{ bytes: [1], fPort: "2" }'),
    { code: 'bad_output', message: 'fPort is "2"; it must be an integer from 1 to 223, or left out' },
  ],
  [
    'too many bytes',
    returning('{ bytes: new Uint8Array(65537) }'),
    { code: 'too_large', message: 'bytes holds 65537 values; at most 65536 are taken' },
  ],
  [
    'a promise that never settles',
    returning('new Promise(function () {})'),
    {
      code: 'bad_output',
      message: 'the encoder returned a promise that is never settled; it must return {bytes: [1, 2, 3]}',
    },
  ],
  [
    'errors that it returns',
    returning('{ errors: ["level too high", { at: 3 }] }'),
    { code: 'encoder_errors', message: 'level too high; {"at":3}' },
  ],
  ['errors together with bytes', returning('{ bytes: [1], errors: "no" }'), { code: 'encoder_errors', message: 'no' }],
  ['no encoder', 'function decodeUplink() {}', { code: 'no_encoder', lineNumber: undefined }],
  ['an encoder that is not a function', 'var encodeDownlink = {};', { code: 'no_encoder' }],
  ['an empty script', '', { code: 'no_encoder' }],
  ['wrong syntax', 'var a = 1;\n\nfunction encodeDownlink( {', { code: 'syntax_error', lineNumber: 3 }],
  ['an import', 'import fs from "fs";', { code: 'syntax_error', lineNumber: 1 }],
  ['wrong JSON while it loads', '\nJSON.parse("{");', { code: 'runtime_error', lineNumber: 2 }],
  ['wrong syntax in eval', '\n\neval("1 +");', { code: 'runtime_error', lineNumber: 3 }],
  [
    'a throw in a function it calls',
    'function a() {\n  null.x;\n}\nfunction encodeDownlink() {\n  a();\n}',
    { code: 'runtime_error', message: "TypeError: cannot read property 'x' of null", lineNumber: 2 },
  ],
  [
    'a throw inside Buffer',
    'function encodeDownlink() {\n  return Buffer.from(null);\n}',
    { code: 'runtime_error', lineNumber: 2 },
  ],
  [
    'an error of a custom class',
    'class Wrong extends Error { name = "Wrong"; }\nfunction encodeDownlink() {\n\n  throw new Wrong("level");\n}',
    { code: 'runtime_error', message: 'Wrong: level' },
  ],
  [
    'a rejection',
    'async function encodeDownlink() {\n  await 1;\n  throw new TypeError("late");\n}',
    { code: 'runtime_error', message: 'TypeError: late', lineNumber: 3 },
  ],
  ['a thrown string', 'throw "level";', { code: 'runtime_error', message: 'level', lineNumber: undefined }],
  ['a thrown null', 'throw null;', { code: 'runtime_error', message: 'null' }],
  [
    'a line that does not exist',
    'throw { message: "x", stack: "    at f (codec.js:99:1)" };',
    { code: 'runtime_error', lineNumber: undefined },
  ],
];

describe('the error of an encoder', () => {
  it.each(failures)('is reported: %s', async (_what, script, expected) => {
    const { output, error } = await fixture.encode(script);
    expect(output).toBeUndefined();
    expect(error).toMatchObject(expected);
  });

  it('is truncated when there are many errors', async () => {
    const { error } = await fixture.encode(returning('{ errors: Array(1e6).fill("level is too high ".repeat(5)) }'));
    expect(error?.message).toMatch(/^level is too high level .* \(cut: \d+ more characters\)$/);
    expect(error?.message.length).toBeLessThanOrEqual(2000);
    expect((await fixture.encode(returning('{ errors: ["a".repeat(999), "b".repeat(999)] }'))).error?.message).toBe(
      `${'a'.repeat(999)}; ${'b'.repeat(999)}`,
    );
  });

  it('is returned together with the warnings and the log', async () => {
    const result = await fixture.encode(
      'function encodeDownlink() { console.warn("a", 1); return { warnings: ["low"], errors: ["no"] }; }',
    );
    expect(result).toMatchObject({ warnings: ['low'], logs: ['a 1'], error: { code: 'encoder_errors' } });
    expect(result.executionTimeMs).toBeGreaterThan(0);
  });
});

describe('the warnings of an encoder', () => {
  it('are returned with the bytes', async () => {
    expect(await fixture.encode(returning('{ bytes: [1], warnings: ["low", 5, null] }'))).toMatchObject({
      warnings: ['low', '5', 'null'],
      error: undefined,
    });
    expect(await fixture.encode(returning('{ bytes: [1], warnings: "low" }'))).toMatchObject({ warnings: ['low'] });
    expect(await fixture.encode(returning('{ bytes: [1], warnings: null }'))).toMatchObject({ warnings: [] });
  });

  it('are limited in number and length', async () => {
    const { warnings } = await fixture.encode(returning('{ bytes: [1], warnings: Array(1e5).fill("x".repeat(5000)) }'));
    expect(warnings.map((line) => line.length).slice(0, 9)).toEqual([...Array<number>(8).fill(1000), 192]);
    expect(warnings.slice(9)).toEqual([
      '(cut: the end of the last line and 92 more lines; the maximum is 100 lines and 8192 bytes)',
    ]);
  });
});

const getLog = async (body: string): Promise<readonly string[]> =>
  (await fixture.encode(`function encodeDownlink() { ${body}; return []; }`)).logs;

describe('the log of an encoder', () => {
  it('accepts every level and every value', async () => {
    expect(
      await getLog(
        'console.log("a", 1, null, undefined, true); console.info([1, "x"]); console.warn({ a: { b: 1 } }); console.error(new TypeError("t")); console.debug(new Uint8Array([1, 2]), 5n, Symbol("s"), function f() {})',
      ),
    ).toEqual(['a 1 null undefined true', '[1,"x"]', '{"a":{"b":1}}', 'TypeError: t', '[1,2] 5n Symbol(s) a function']);
  });

  it('supports table, trace and assert', async () => {
    expect(
      await getLog(
        'console.table([{ a: 1 }]); console.trace("here"); console.assert(true, "no"); console.assert(false); console.assert(0, "zero", 5)',
      ),
    ).toEqual(['[{"a":1}]', 'here', 'Assertion failed', 'Assertion failed: zero 5']);
  });

  it('preserves every character', async () => {
    expect(
      await getLog(String.raw`console.log("a\0b"); console.log("\ud800x", "\u2028\"\\"); console.log("\ud83d\ude00")`),
    ).toEqual(['a\0b', '\ud800x \u2028"\\', '\u{1f600}']);
  });

  it('survives values that cannot be formatted', async () => {
    expect(
      await getLog(
        'var c = {}; c.c = c; console.log(c); console.log(new Proxy({}, { get() { throw 1; } })); console.log({ toJSON() { throw 2; } })',
      ),
    ).toEqual(Array(3).fill('an object that cannot be shown'));
  });

  it('is cut after 100 lines and reports how many were cut', async () => {
    const logs = await getLog('for (var i = 0; i < 1000; i++) console.log("line", i)');
    expect(logs).toHaveLength(101);
    expect(logs.slice(-2)).toEqual(['line 99', '(cut: 900 more lines; the maximum is 100 lines and 8192 bytes)']);
  });

  it('is cut after 8 KiB and reports how much was cut', async () => {
    const logs = await getLog('console.log("é".repeat(3000)); console.log("é".repeat(3000)); console.log("z")');
    expect(logs.map((line) => Buffer.byteLength(line)).slice(0, 2)).toEqual([6000, 2192]);
    expect(logs[2]).toBe('(cut: the end of the last line and 1 more line; the maximum is 100 lines and 8192 bytes)');
  });

  it('is returned when the script fails', async () => {
    expect(await fixture.encode('console.log("before"); null.x')).toMatchObject({
      logs: ['before'],
      error: { code: 'runtime_error' },
    });
  });
});

const ending = 'function encodeDownlink() { return []; }';
const getScript = (size: number): string => `${ending}//${'x'.repeat(size - ending.length - 2)}`;

describe('size limits', () => {
  it('allow scripts of up to 256 KiB', async () => {
    expect((await fixture.encode(getScript(262_144))).error).toBeUndefined();
    expect((await fixture.encode(getScript(262_145))).error).toEqual({
      code: 'too_large',
      message: 'the script has 262145 bytes: the maximum is 262144',
      lineNumber: undefined,
    });
  });

  it('allow inputs of up to 64 KiB', async () => {
    const around = Buffer.byteLength('{"data":"","variables":{}}');
    expect((await fixture.encode(ending, { data: 'x'.repeat(65_536 - around) })).error).toBeUndefined();
    expect((await fixture.encode(ending, { data: 'x'.repeat(65_537 - around) })).error).toEqual({
      code: 'too_large',
      message: "the encoder's input has 65537 bytes as JSON: the maximum is 65536",
      lineNumber: undefined,
    });
  });

  it('allow outputs of up to 64 KiB', async () => {
    expect(await fixture.bytes(returning('{ bytes: new Uint8Array(65536).fill(255) }'))).toEqual(
      Array(65_536).fill(255),
    );
  });
});
