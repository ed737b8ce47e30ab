import fc from 'fast-check';
import { DomainError, type Violation } from '../../../src/kernel/errors';
import { parseStrict } from '../../../src/rpc/json/strictJson';

const SEED = 20_270_115;

const bytesOf = (text: string | Uint8Array): Uint8Array => (typeof text === 'string' ? Buffer.from(text) : text);

const names = (count: number): string => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')}}`;
const values = (count: number): string => `[${'1,'.repeat(count - 1)}1]`;

/** What is said about a text; undefined when it is taken. */
function refusal(text: string | Uint8Array): readonly Violation[] | undefined {
  try {
    parseStrict(bytesOf(text));
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(DomainError);
    expect((error as DomainError).reason).toBe('validation_failed');
    return (error as DomainError).violations;
  }
}

const nested = (depth: number, inner: string): string => '['.repeat(depth) + inner + ']'.repeat(depth);

describe('strict JSON takes', () => {
  it.each([
    ['nothing but a scalar', '7'],
    ['white space around it', ' \n\t\r{ "a" : [ 1 , 2 ] }\r\n'],
    ['32 levels', nested(32, '')],
    ['a scalar on level 32', nested(32, '1')],
    ['keys that JavaScript knows', '{"constructor":1,"toString":2,"hasOwnProperty":3,"prototype":{"x":1}}'],
    ['the same key in different objects', '{"a":{"a":1},"b":[{"a":1},{"a":2}]}'],
    ['more keys than are compared one by one', `{${Array.from({ length: 30 }, (_, at) => `"k${at}":${at}`).join(',')}}`],
    ['the empty key', '{"":1}'],
    ['all escapes', String.raw`"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"`],
    ['characters beyond ASCII', '{"ä":"😀\u2028\u007f"}'],
    ['minus zero', '-0'],
    ['exponents', '[1E5,1e+5,1.5e-5,0e0,0E-999]'],
    ['the greatest and the least number', '[1.7976931348623157e308,-1.7976931348623157e308,5e-324]'],
    ['safe integers', '[9007199254740991,-9007199254740991]'],
    ['greater integers that are exact', '[9007199254740992,-9007199254740994,18446744073709551616]'],
    ['long fractions', '0.1000000000000000055511151231257827021181583404541015625'],
    ['literals', '[true,false,null]'],
    ['empty objects and lists', '[{},[],{"a":{}},[[]]]'],
  ])('%s', (_, text) => {
    expect(parseStrict(bytesOf(text))).toStrictEqual(JSON.parse(text));
  });
});

describe('strict JSON refuses', () => {
  it.each<[string, string | Uint8Array, string, string]>([
    ['nothing', '', '', 'is empty; send JSON'],
    ['only white space', ' \n ', '', 'is empty; send JSON'],
    ['33 levels', nested(33, ''), '[0]'.repeat(32), 'is nested too deep; at most 32 levels of objects and lists are allowed'],
    ['100,000 levels', '['.repeat(100_000), '[0]'.repeat(32), 'is nested too deep'],
    ['100,000 levels of objects', '{"a":'.repeat(100_000), 'a.a.a', 'is nested too deep'],
    ['a key given twice', '{"a":1,"b":2,"a":3}', 'a', 'is given twice; give it once'],
    ['a key given twice, far inside', '{"x":[0,{"y":{"a":1,"a":1}}]}', 'x[1].y.a', 'is given twice'],
    ['a key given twice, once escaped', String.raw`{"a":1,"\u0061":2}`, 'a', 'is given twice'],
    ['a key given twice among many', `{${Array.from({ length: 30 }, (_, at) => `"k${at}":${at}`).join(',')},"k3":0}`, 'k3', 'is given twice'],
    ['__proto__', '{"x":{"__proto__":{"admin":true}}}', 'x.__proto__', 'is no name that is kept; choose another'],
    ['__proto__, escaped', String.raw`{"\u005f_proto__":1}`, '__proto__', 'is no name that is kept'],
    ['NUL, escaped', String.raw`{"a":"x\u0000"}`, 'a', 'holds the character NUL; leave it out'],
    ['NUL as it is', '{"a":"\0"}', 'a', 'is not JSON at line 1, column 7: a control character must be escaped'],
    ['a tab in a string', '"\t"', '', 'is not JSON at line 1, column 2: a control character must be escaped'],
    ['the first half of a pair', String.raw`["\ud83d"]`, '[0]', 'is not well-formed Unicode'],
    ['the second half of a pair', String.raw`["\ude00"]`, '[0]', 'is not well-formed Unicode'],
    ['two first halves', String.raw`"\ud83d\ud83d"`, '', 'is not well-formed Unicode'],
    ['half of a pair and an escape', String.raw`"\ud83d\n"`, '', 'is not well-formed Unicode'],
    ['half of a pair in a key', String.raw`{"\ud83d":1}`, '', 'is not well-formed Unicode'],
    ['1e400', '{"a":[1e400]}', 'a[0]', 'is a number beyond all that can be held'],
    ['-1e400', '-1e400', '', 'is a number beyond all that can be held'],
    ['a number of 400 digits', '9'.repeat(400), '', 'is a number beyond all that can be held'],
    ['1e-400', '1e-400', '', 'is a number so small that it would become 0'],
    ['2^53 + 1', '9007199254740993', '', 'is a whole number that cannot be held exactly'],
    ['-2^53 - 1', '-9007199254740993', '', 'is a whole number that cannot be held exactly'],
    ['an integer of 30 digits', '[123456789012345678901234567890]', '[0]', 'is a whole number that cannot be held exactly'],
    ['a byte order mark', '\uFEFF{}', '', 'begins with a byte order mark; leave it out'],
    ['UTF-16 with a mark', Buffer.from('\uFEFF{}', 'utf16le'), '', 'is not UTF-8; send JSON in UTF-8'],
    ['UTF-16', Buffer.from('{}', 'utf16le'), '', 'is not JSON at line 1, column 2'],
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xc3, 0x28, 0x22]), '', 'is not UTF-8'],
    ['an overlong NUL', Buffer.from([0x22, 0xc0, 0x80, 0x22]), '', 'is not UTF-8'],
    ['surrogates in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0xbd, 0x22]), '', 'is not UTF-8'],
    ['a comma behind the last item', '[1,]', '[1]', 'is not JSON at line 1, column 4: a value is expected'],
    ['a comma behind the last key', '{"a":1,}', 'a', 'is not JSON at line 1, column 8: a name in double quotes is expected'],
    ['two commas', '[1,,2]', '[1]', 'column 4: a value is expected'],
    ['no comma', '{"a":1 "b":2}', 'a', 'column 8: a comma or } is expected'],
    ['no colon', '{"a" 1}', 'a', 'column 6: a colon is expected'],
    ['a key without quotes', '{a:1}', '', 'column 2: a name in double quotes is expected'],
    ['comments', '{"a":1 /* one */}', 'a', 'column 8: a comma or } is expected'],
    ['a comment first', '// one\n1', '', 'column 1: a value is expected'],
    ['NaN', '{"a":NaN}', 'a', 'column 6: a value is expected'],
    ['Infinity', '-Infinity', '', 'column 2: a digit is expected'],
    ['undefined', 'undefined', '', 'a value is expected'],
    ['single quotes', "{'a':1}", '', 'column 2: a name in double quotes is expected'],
    ['leading zeros', '01', '', 'column 2: nothing may follow here'],
    ['a leading zero after a minus', '[-01]', '[0]', 'column 4: a comma or ] is expected'],
    ['a plus', '+1', '', 'a value is expected'],
    ['no digit before the point', '.5', '', 'a value is expected'],
    ['no digit after the point', '1.', '', 'column 3: a digit is expected'],
    ['no digit in the exponent', '1e+', '', 'column 4: a digit is expected'],
    ['hexadecimal numbers', '0x10', '', 'column 2: nothing may follow here'],
    ['a literal in capitals', 'True', '', 'a value is expected'],
    ['half of a literal', '[tru]', '[0]', 'column 2: a value is expected'],
    ['more than one value', '{} {}', '', 'column 4: nothing may follow here'],
    ['an end inside of a string', '{"a":"x', 'a', 'column 8: the text ends inside of a string'],
    ['an end inside of an object', '{"a":1', 'a', 'column 7: a comma or } is expected'],
    ['an end inside of an escape', '"\\', '', 'there is no such escape'],
    ['an escape that is none', String.raw`"\x41"`, '', 'column 2: there is no such escape'],
    ['an escape that is too short', String.raw`"\u12"`, '', 'four hexadecimal digits are expected'],
    ['the wrong bracket', '[1}', '[0]', 'a comma or ] is expected'],
    ['a line that is counted', '{\n  "a": 1,\r\n  "b": x\n}', 'b', 'is not JSON at line 3, column 8'],
    ['white space of another kind', '\u00A01', '', 'a value is expected'],
  ])('%s', (_, text, field, description) => {
    const [first] = refusal(text) ?? [];
    expect(first?.description).toContain(description);
    expect(first?.field.slice(0, Math.max(field.length, 1))).toBe(field);
  });

  it('everything that would get lost at once, and what is no JSON behind it', () => {
    const text = String.raw`{"a":1e400,"a":"\u0000","list":[9007199254740993],"__proto__":2,"end":}`;
    expect(refusal(text)?.map(({ field }) => field)).toEqual(['a', 'a', 'a', 'list[0]', '__proto__', 'end']);
  });

  it('no more than a hundred things, and names them shortly', () => {
    const many = refusal(`{${'"a":1,'.repeat(500)}"a":1}`) ?? [];
    expect(many).toHaveLength(100);
    const [long] = refusal(`{"${'k'.repeat(10_000)}":1e400}`) ?? [];
    expect(long?.field.length).toBeLessThan(200);
  });

  it('more names or values than any request needs, before the parser is busy with them', () => {
    expect(refusal(names(10_000))).toBeUndefined();
    expect(refusal(names(10_001))).toEqual([{ field: '', description: 'holds more than 10000 names; send less in one request' }]);
    expect(refusal(values(99_999))).toBeUndefined();
    expect(refusal(values(100_000))).toEqual([{ field: '', description: 'holds more than 100000 values; send less in one request' }]);
  });

  it('keys as they are meant: an object has no foreign prototype', () => {
    const value = parseStrict(bytesOf('{"constructor":{"prototype":{"x":1}}}')) as object;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });
});

const plainText = fc.string({ unit: 'grapheme', maxLength: 12 }).filter((text) => text !== '__proto__' && !text.includes('\0'));
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

describe(`strict JSON beside JSON.parse (seed ${SEED})`, () => {
  it('gives the same value for what is right', () => {
    fc.assert(
      fc.property(jsonValues, fc.constantFrom(undefined, 1, '\t', '\r\n '), fc.boolean(), (value, space, isEscaped) => {
        const text = JSON.stringify(value, undefined, space);
        const written = isEscaped ? text.replaceAll(/[^\x20-\x7e\s]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`) : text;
        expect(parseStrict(bytesOf(written))).toStrictEqual(JSON.parse(written));
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('takes nothing that JSON.parse refuses, and what it takes means the same', () => {
    const pieces = fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', '0', '-', '.', 'e', '\\u', 'd8', ' ', '\n', '\u0001', 'null', 'x', "'", '/');
    fc.assert(
      fc.property(jsonValues, fc.array(fc.tuple(fc.nat(), fc.nat({ max: 3 }), pieces), { minLength: 1, maxLength: 3 }), (value, changes) => {
        const text = changes.reduce((changed, [at, gone, piece]) => {
          const place = at % (changed.length + 1);
          return changed.slice(0, place) + piece + changed.slice(place + gone);
        }, JSON.stringify(value));
        const bytes = bytesOf(text);
        if (refusal(bytes)) return;
        expect(parseStrict(bytes)).toStrictEqual(JSON.parse(bytes.toString()));
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });
});
