import { looksLikeJson, readReceivedJson } from '../../src/connections/receivedJson';
import { InexactNumber } from '../../src/kernel/inexactNumber';

const read = (text: string): unknown => readReceivedJson(Buffer.from(text));
/** Returns the value of a text, with inexact numbers as `text → nearest`. */
function readValue(text: string): unknown {
  const { value } = readReceivedJson(Buffer.from(text)) as { readonly value: unknown };
  return structuredClone(replaceInexact(value));
}
function replaceInexact(value: unknown): unknown {
  if (value instanceof InexactNumber) return `${value.text} → ${value.nearest}`;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(replaceInexact);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, replaceInexact(inner)]));
}

describe('JSON from a device', () => {
  it.each([
    ['{"temperature":nan,"humidity":40}', { temperature: 'nan → NaN', humidity: 40 }],
    ['{"temperature":NaN,"humidity":40}', { temperature: 'NaN → NaN', humidity: 40 }],
    ['{"temperature":Infinity,"humidity":40}', { temperature: 'Infinity → Infinity', humidity: 40 }],
    ['{"temperature":-inf,"humidity":40}', { temperature: '-inf → -Infinity', humidity: 40 }],
    ['{"temperature":-nan(ind), "humidity":40}', { temperature: '-nan(ind) → NaN', humidity: 40 }],
    ['{"temperature":None,"humidity":40}', { temperature: 'None → NaN', humidity: 40 }],
    ['{"temperature":null,"humidity":40,}', { temperature: null, humidity: 40 }],
    ['{"on":True,"off":FALSE}', { on: true, off: false }],
    ['{"temperature":21.5,"humidity":40,}', { temperature: 21.5, humidity: 40 }],
    ['[1, 2 , ]', [1, 2]],
    ['{"temperature":21.5}\0', { temperature: 21.5 }],
    ['{"temperature":21.5}\r\n\0\0\0', { temperature: 21.5 }],
    ['{"temperature":21.5}\0\n', { temperature: 21.5 }],
    ['{"temperature":21.5} \0 \0\r\n', { temperature: 21.5 }],
    ['[-1.5e400,1E+400]', ['-1.5e400 → -Infinity', '1E+400 → Infinity']],
    ['12.5e300', '12.5e300 → 1.25e+301'],
    ['{"n":1.2345678901234567e17}', { n: '1.2345678901234567e17 → 123456789012345660' }],
    ['{"t":1e400,"h":40}', { t: '1e400 → Infinity', h: 40 }],
    ['{"n":9007199254740993}', { n: '9007199254740993 → 9007199254740992' }],
    ['{"n":[-9007199254740993, 9007199254740991]}', { n: ['-9007199254740993 → -9007199254740992', 9007199254740991] }],
    ['{"t":21.299999999999997,"s":"a\\"b\\u00e9, [1]"}', { t: 21.299999999999997, s: 'a"bé, [1]' }],
    ['nan', 'nan → NaN'],
    [' { } ', {}],
  ])('is read: %j', (text, value) => {
    expect(readValue(text)).toEqual(value);
  });

  it.each([
    ['{"temperature":21.5,"humid', 'json_incomplete'],
    ['{"temperature":21.', 'json_incomplete'],
    ['{"temperature":', 'json_incomplete'],
    ['{"temperature":21.5', 'json_incomplete'],
    ['{"temperature":tru', 'json_incomplete'],
    ["{'temperature':21.5}", 'json_invalid'],
    ['{temperature:21.5}', 'json_invalid'],
    ['{"temperature":21,5}', 'json_invalid'],
    ['{"temperature":21.5}{"temperature":22}', 'json_invalid'],
    ['{"temperature":undefined}', 'json_invalid'],
    ['{"temperature":nano}', 'json_invalid'],
    ['{"temperature":007}', 'json_invalid'],
    ['{"temperature":"\\x",}', 'json_invalid'],
    ['{,}', 'json_invalid'],
    ['', 'json_invalid'],
    [`${'['.repeat(40)}nan${']'.repeat(40)}`, 'json_too_deep'],
  ])('is unreadable: %j', (text, code) => {
    expect(read(text)).toEqual({ reason: expect.stringMatching(`^${code}: `) as string });
  });

  it('is parsed once if its ids and encoded bytes only look like numbers', () => {
    const parse = jest.spyOn(JSON, 'parse');
    for (let count = 0; count < 256; count += 1) {
      const digit = count.toString(16).padStart(2, '0');
      const id = `${digit}1e${digit}45-1e12-4e39-9e111-${digit}0123456789`;
      read(JSON.stringify({ deduplicationId: id, data: `Ae9e123${digit}0E+100==`, n: [-1e-7, 2.5e10] }));
    }
    expect(parse).toHaveBeenCalledTimes(256);
    parse.mockRestore();
  });

  it('names the position of what it cannot read, without the content', () => {
    expect(read("{'secret':21.5}")).toEqual({
      reason: 'json_invalid: expected a name in double quotes or } at character 2',
    });
  });

  it('reads a name `__proto__` like any other', () => {
    const { value } = read('{"__proto__":nan}') as { readonly value: object };
    expect(Object.keys(value)).toEqual(['__proto__']);
  });

  it('reads hostile texts in linear time', () => {
    for (const text of [
      ' '.repeat(65_000),
      '"\\'.repeat(32_000),
      '1'.repeat(65_000),
      'a'.repeat(65_000),
      '[,'.repeat(32_000),
    ])
      expect(read(`{"a":${text}x`)).toMatchObject({ reason: expect.any(String) as string });
  });
});

describe('bytes that look like JSON', () => {
  it.each([
    '{"temperature":21.',
    "{'t':1}",
    '{temperature:1}',
    ' [1,2',
    '{"t":"\u00e9',
    '\uFEFF{"t":',
    '{"t":1,\n\0',
    '{"t":21}\0"h":40}',
    '{"t":21}\0\u0001\uFFFD',
  ])('%j does', (text) => {
    expect(looksLikeJson(Buffer.from(text))).toBe(true);
  });

  it.each([
    Buffer.from('online'),
    Buffer.from('21,5'),
    Buffer.from('{'),
    Buffer.from(''),
    Buffer.from([0x7b, 0x22, 0x01, 0x02]),
    Buffer.from([0x5b, 0x31, 0xff, 0x30]),
    Buffer.from([0x7b, 0x00]),
  ])('%j does not', (bytes) => {
    expect(looksLikeJson(bytes)).toBe(false);
  });
});
