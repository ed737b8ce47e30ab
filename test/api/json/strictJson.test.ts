import fc from 'fast-check';
import { DomainError, type Violation } from '../../../src/kernel/errors';
import { parseStrict } from '../../../src/api/json/strictJson';

const SEED = 20_270_115;

const parseBytes = (text: string | Uint8Array): Uint8Array => (typeof text === 'string' ? Buffer.from(text) : text);

const names = (count: number): string => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')}}`;
const values = (count: number): string => `[${'1,'.repeat(count - 1)}1]`;

/** Returns the error for a text; undefined when it is accepted. */
function refusal(text: string | Uint8Array): readonly Violation[] | undefined {
  try {
    parseStrict(parseBytes(text));
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(DomainError);
    expect((error as DomainError).reason).toBe('validation_failed');
    return (error as DomainError).violations;
  }
}

const nested = (depth: number, inner: string): string => '['.repeat(depth) + inner + ']'.repeat(depth);

describe('strict JSON accepts', () => {
  it.each([
    ['a lone scalar', '7'],
    ['white space around it', ' \n\t\r{ "a" : [ 1 , 2 ] }\r\n'],
    ['32 levels', nested(32, '')],
    ['a scalar on level 32', nested(32, '1')],
    ['keys that are built-in in JavaScript', '{"constructor":1,"toString":2,"hasOwnProperty":3,"prototype":{"x":1}}'],
    ['the same key in different objects', '{"a":{"a":1},"b":[{"a":1},{"a":2}]}'],
    [
      'more keys than are compared one by one',
      `{${Array.from({ length: 30 }, (_, at) => `"k${at}":${at}`).join(',')}}`,
    ],
    ['the empty key', '{"":1}'],
    ['all escapes', String.raw`"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"`],
    ['characters beyond ASCII', '{"ä":"😀\u2028\u007f"}'],
    ['minus zero', '-0'],
    ['exponents', '[1E5,1e+5,1.5e-5,0e0,0E-999]'],
    ['the largest and the smallest number', '[1.7976931348623157e308,-1.7976931348623157e308,5e-324]'],
    ['safe integers', '[9007199254740991,-9007199254740991]'],
    ['larger integers that are exact', '[9007199254740992,-9007199254740994,18446744073709551616]'],
    ['long fractions', '0.1000000000000000055511151231257827021181583404541015625'],
    ['literals', '[true,false,null]'],
    ['empty objects and lists', '[{},[],{"a":{}},[[]]]'],
  ])('%s', (_, text) => {
    expect(parseStrict(parseBytes(text))).toStrictEqual(JSON.parse(text));
  });
});

describe('strict JSON rejects', () => {
  it.each<[string, string | Uint8Array, string, string]>([
    ['nothing', '', '', 'is empty: send JSON'],
    ['only white space', ' \n ', '', 'is empty: send JSON'],
    [
      '33 levels',
      nested(33, ''),
      '[0]'.repeat(32),
      'is nested too deeply: at most 32 levels of objects and arrays are allowed',
    ],
    ['100,000 levels', '['.repeat(100_000), '[0]'.repeat(32), 'is nested too deep'],
    ['100,000 levels of objects', '{"a":'.repeat(100_000), 'a.a.a', 'is nested too deep'],
    ['a key given twice', '{"a":1,"b":2,"a":3}', 'a', 'is a duplicate name: send it only once'],
    ['a key given twice, far inside', '{"x":[0,{"y":{"a":1,"a":1}}]}', 'x[1].y.a', 'is a duplicate name'],
    ['a key given twice, once escaped', String.raw`{"a":1,"\u0061":2}`, 'a', 'is a duplicate name'],
    [
      'a key given twice among many',
      `{${Array.from({ length: 30 }, (_, at) => `"k${at}":${at}`).join(',')},"k3":0}`,
      'k3',
      'is a duplicate name',
    ],
    ['__proto__', '{"x":{"__proto__":{"admin":true}}}', 'x.__proto__', 'is not an allowed name: use another name'],
    ['__proto__, escaped', String.raw`{"\u005f_proto__":1}`, '__proto__', 'is not an allowed name'],
    ['NUL, escaped', String.raw`{"a":"x\u0000"}`, 'a', 'contains the NUL character: remove it'],
    ['NUL as it is', '{"a":"\0"}', 'a', 'is not valid JSON at line 1, column 7: a control character must be escaped'],
    ['a tab in a string', '"\t"', '', 'is not valid JSON at line 1, column 2: a control character must be escaped'],
    ['an unpaired high surrogate', String.raw`["\ud83d"]`, '[0]', 'is not well-formed Unicode'],
    ['an unpaired low surrogate', String.raw`["\ude00"]`, '[0]', 'is not well-formed Unicode'],
    ['two high surrogates', String.raw`"\ud83d\ud83d"`, '', 'is not well-formed Unicode'],
    ['an unpaired surrogate and an escape', String.raw`"\ud83d\n"`, '', 'is not well-formed Unicode'],
    ['an unpaired surrogate in a key', String.raw`{"\ud83d":1}`, '', 'is not well-formed Unicode'],
    ['1e400', '{"a":[1e400]}', 'a[0]', 'is too large for a number'],
    ['-1e400', '-1e400', '', 'is too large for a number'],
    ['a number of 400 digits', '9'.repeat(400), '', 'is too large for a number'],
    ['1e-400', '1e-400', '', 'is so close to 0 that it would become 0'],
    ['2^53 + 1', '9007199254740993', '', 'is a whole number that cannot be stored exactly'],
    ['-2^53 - 1', '-9007199254740993', '', 'is a whole number that cannot be stored exactly'],
    [
      'an integer of 30 digits',
      '[123456789012345678901234567890]',
      '[0]',
      'is a whole number that cannot be stored exactly',
    ],
    ['a byte order mark', '\uFEFF{}', '', 'starts with a byte order mark: remove it'],
    ['UTF-16 with a mark', Buffer.from('\uFEFF{}', 'utf16le'), '', 'is not UTF-8: send JSON in UTF-8'],
    ['UTF-16', Buffer.from('{}', 'utf16le'), '', 'is not valid JSON at line 1, column 2'],
    ['bytes that are not UTF-8', Buffer.from([0x22, 0xc3, 0x28, 0x22]), '', 'is not UTF-8'],
    ['an overlong NUL', Buffer.from([0x22, 0xc0, 0x80, 0x22]), '', 'is not UTF-8'],
    ['surrogates in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0xbd, 0x22]), '', 'is not UTF-8'],
    ['a comma after the last item', '[1,]', '[1]', 'is not valid JSON at line 1, column 4: expected a value'],
    [
      'a comma after the last key',
      '{"a":1,}',
      'a',
      'is not valid JSON at line 1, column 8: expected a name in double quotes',
    ],
    ['two commas', '[1,,2]', '[1]', 'column 4: expected a value'],
    ['no comma', '{"a":1 "b":2}', 'a', 'column 8: expected a comma or }'],
    ['no colon', '{"a" 1}', 'a', 'column 6: expected a colon'],
    ['a key without quotes', '{a:1}', '', 'column 2: expected a name in double quotes'],
    ['comments', '{"a":1 /* one */}', 'a', 'column 8: expected a comma or }'],
    ['a leading comment', '// one\n1', '', 'column 1: expected a value'],
    ['NaN', '{"a":NaN}', 'a', 'column 6: expected a value'],
    ['Infinity', '-Infinity', '', 'column 2: expected a digit'],
    ['undefined', 'undefined', '', 'expected a value'],
    ['single quotes', "{'a':1}", '', 'column 2: expected a name in double quotes'],
    ['leading zeros', '01', '', 'column 2: expected the end of the JSON text'],
    ['a leading zero after a minus', '[-01]', '[0]', 'column 4: expected a comma or ]'],
    ['a plus', '+1', '', 'expected a value'],
    ['no digit before the point', '.5', '', 'expected a value'],
    ['no digit after the point', '1.', '', 'column 3: expected a digit'],
    ['no digit in the exponent', '1e+', '', 'column 4: expected a digit'],
    ['hexadecimal numbers', '0x10', '', 'column 2: expected the end of the JSON text'],
    ['a literal in capitals', 'True', '', 'expected a value'],
    ['half of a literal', '[tru]', '[0]', 'column 2: expected a value'],
    ['more than one value', '{} {}', '', 'column 4: expected the end of the JSON text'],
    ['an end inside a string', '{"a":"x', 'a', 'column 8: the text ends inside a string'],
    ['an end inside an object', '{"a":1', 'a', 'column 7: expected a comma or }'],
    ['an end inside an escape', '"\\', '', 'unknown escape sequence'],
    ['an unknown escape', String.raw`"\x41"`, '', 'column 2: unknown escape sequence'],
    ['an escape that is too short', String.raw`"\u12"`, '', 'expected four hexadecimal digits'],
    ['the wrong bracket', '[1}', '[0]', 'expected a comma or ]'],
    ['a later line with its number', '{\n  "a": 1,\r\n  "b": x\n}', 'b', 'is not valid JSON at line 3, column 8'],
    ['another kind of white space', '\u00A01', '', 'expected a value'],
  ])('%s', (_, text, field, description) => {
    const [first] = refusal(text) ?? [];
    expect(first?.description).toContain(description);
    expect(first?.field.slice(0, Math.max(field.length, 1))).toBe(field);
  });

  it('all violations together with a syntax error after them', () => {
    const text = String.raw`{"a":1e400,"a":"\u0000","list":[9007199254740993],"__proto__":2,"end":}`;
    expect(refusal(text)?.map(({ field }) => field)).toEqual(['a', 'a', 'a', 'list[0]', '__proto__', 'end']);
  });

  it('a text with many violations, of which it lists at most a hundred in short form', () => {
    const many = refusal(`{${'"a":1,'.repeat(500)}"a":1}`) ?? [];
    expect(many).toHaveLength(100);
    const [long] = refusal(`{"${'k'.repeat(10_000)}":1e400}`) ?? [];
    expect(long?.field.length).toBeLessThan(200);
  });

  it('more names or values than any request needs, before it parses them all', () => {
    expect(refusal(names(10_000))).toBeUndefined();
    expect(refusal(names(10_001))).toEqual([
      { field: '', description: 'has more than 10000 names: send fewer in one request' },
    ]);
    expect(refusal(values(99_999))).toBeUndefined();
    expect(refusal(values(100_000))).toEqual([
      { field: '', description: 'has more than 100000 values: send fewer in one request' },
    ]);
  });

  it('special keys, so that an object never gets a foreign prototype', () => {
    const value = parseStrict(parseBytes('{"constructor":{"prototype":{"x":1}}}')) as object;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });
});

const plainText = fc
  .string({ unit: 'grapheme', maxLength: 12 })
  .filter((text) => text !== '__proto__' && !text.includes('\0'));
const jsonValues = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, true, false, 0, -1, 1e-7, 1.5e300),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 }),
    plainText,
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(plainText, tie('value'), { maxKeys: 12, noNullPrototype: true }),
  ),
})).value;

describe(`strict JSON compared with JSON.parse (seed ${SEED})`, () => {
  it('returns the same value for valid JSON', () => {
    fc.assert(
      fc.property(jsonValues, fc.constantFrom(undefined, 1, '\t', '\r\n '), fc.boolean(), (value, space, isEscaped) => {
        const text = JSON.stringify(value, undefined, space);
        const written = isEscaped
          ? text.replaceAll(/[^\x20-\x7e\s]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
          : text;
        expect(parseStrict(parseBytes(written))).toStrictEqual(JSON.parse(written));
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('accepts nothing that JSON.parse rejects, and returns the same value', () => {
    const pieces = fc.constantFrom(
      '"',
      '\\',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '0',
      '-',
      '.',
      'e',
      '\\u',
      'd8',
      ' ',
      '\n',
      '\u0001',
      'null',
      'x',
      "'",
      '/',
    );
    fc.assert(
      fc.property(
        jsonValues,
        fc.array(fc.tuple(fc.nat(), fc.nat({ max: 3 }), pieces), { minLength: 1, maxLength: 3 }),
        (value, changes) => {
          const text = changes.reduce((changed, [at, removed, piece]) => {
            const place = at % (changed.length + 1);
            return changed.slice(0, place) + piece + changed.slice(place + removed);
          }, JSON.stringify(value));
          const bytes = parseBytes(text);
          if (refusal(bytes)) return;
          expect(parseStrict(bytes)).toStrictEqual(JSON.parse(bytes.toString()));
        },
      ),
      { seed: SEED, numRuns: 2000 },
    );
  });
});
