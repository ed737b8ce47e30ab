import fc from 'fast-check';
import { InsertionRoom, LARGEST_INSERTION, parseJsonText, parseJsonValue, parseValueText, renderTemplate, type TemplateParse } from '../../src/kernel/jsonTemplate';
import type { JsonValue } from '../../src/kernel/jsonValue';

const ROOTS = ['params', 'device'];
const SEED = 20260102;

/** Values as they come over the wire: no `__proto__`, no half surrogate pairs, not too deep. */
const jsonValue = fc.jsonValue({ maxDepth: 4, stringUnit: 'grapheme' }).map((value) => JSON.parse(JSON.stringify(value).replaceAll('__proto__', 'proto')) as JsonValue);

function render(parse: TemplateParse, params: Record<string, JsonValue>): JsonValue {
  if (!parse.template) throw new Error(JSON.stringify(parse.violations));
  const { value, violations } = renderTemplate(parse.template, { params, device: { id: 'd-1' } }, new InsertionRoom());
  if (value === undefined) throw new Error(JSON.stringify(violations));
  return value;
}

function faults(parse: TemplateParse): string[] {
  return parse.violations.map((violation) => violation.description);
}

describe('a JSON text with placeholders', () => {
  it.each<[string, string, Record<string, JsonValue>, JsonValue]>([
    ['plain JSON', '{"a": [1, -2.5e3, true, false, null, "x\\n\\u00e4"], "b": {}}', {}, { a: [1, -2500, true, false, null, 'x\nä'], b: {} }],
    ['a bare value', '{"v": {{params.x}}}', { x: 21.5 }, { v: 21.5 }],
    ['a bare value with blanks', ' { "v" : {{ params.x }} } ', { x: true }, { v: true }],
    ['a quoted whole placeholder keeps the type', '{"v": "{{params.x}}"}', { x: 7 }, { v: 7 }],
    ['inside longer text', '{"v": "set {{params.x}} of {{device.id}}"}', { x: 7 }, { v: 'set 7 of d-1' }],
    ['a text inside longer text', '["<{{params.x}}>"]', { x: 'a"b' }, ['<a"b>']],
    ['null inside longer text', '["<{{params.x}}>"]', { x: null }, ['<null>']],
    ['an object inside longer text', '["<{{params.x}}>"]', { x: { a: [1] } }, ['<{"a":[1]}>']],
    ['a step into an object and a list', '{{params.x.list[1].y-z}}', { x: { list: [0, { 'y-z': 'deep' }] } }, 'deep'],
    ['all parameters', '{{params}}', { x: 1 }, { x: 1 }],
    ['null is a value', '{{params.x}}', { x: null }, null],
    ['closing braces that follow each other', '{"a":{"b":{{params.x}}}}', { x: 1 }, { a: { b: 1 } }],
    ['a value that looks like a template stays a value', '["{{params.x}}", "-{{params.x}}"]', { x: '{{params.y}}' }, ['{{params.y}}', '-{{params.y}}']],
  ])('renders %s', (_name, text, params, expected) => {
    expect(render(parseJsonText(text, 'f', ROOTS), params)).toEqual(expected);
  });

  it.each([
    ['an unknown root', '{"v": {{constructor.x}}}', '{{constructor.x}} at character 7 begins with an unknown name; begin with params, device'],
    ['no path', '{"v": {{}}}', '{{}} at character 7 is not a path'],
    ['a path that ends in a dot', '["{{params.}}"]', 'in the text at character 2 is not a path'],
    ['a path with a call', '["{{params.x()}}"]', 'is not a path'],
    ['a negative index', '["{{params.x[-1]}}"]', 'is not a path'],
    ['no end', '{"v": {{params.x }', '"{{" at character 7 has no "}}"'],
    ['a placeholder as key', '{"{{params.x}}": 1}', 'the key "{{params.x}}" at character 2 may not hold a placeholder'],
    ['a key twice', '{"a": 1, "a": 2}', 'the key "a" at character 10 stands twice'],
    ['the key __proto__', '{"__proto__": {"a": 1}}', 'the key "__proto__" at character 2 would get lost'],
    ['nothing', '', 'the end is at character 1: a JSON value or {{path}} is expected'],
    ['a missing value', '{"a": }', '"}" stands at character 7: a JSON value or {{path}} is expected'],
    ['a comma at the end', '[1,]', '"]" stands at character 4'],
    ['two values', '1 2', 'there is more text after the value'],
    ['a bare word', '{"a": on}', '"o" stands at character 7'],
    ['an unquoted key', '{a: 1}', 'a key in double quotes is expected'],
    ['an open text', '["abc', 'is not a JSON string'],
    ['a control character in a text', '["a\nb"]', 'is not a JSON string'],
    ['a leading zero', '[01]', '"," or "]" is expected'],
    ['a number that would lose digits', '[12345678901234567890]', 'the number at character 2 would lose digits'],
    ['a number that is too large', '[1e999]', 'the number at character 2 is too large'],
    ['half a surrogate pair', '["\\ud800"]', 'half of a surrogate pair'],
    ['33 levels', `${'['.repeat(32)}1${']'.repeat(32)}`, 'nested deeper than 32 levels'],
    ['64 KiB of brackets', '['.repeat(65_536), 'nested deeper than 32 levels'],
  ])('refuses %s and says where', (_name, text, said) => {
    const parse = parseJsonText(text, 'command.directPayload', ROOTS);
    expect(parse.template).toBeUndefined();
    expect(faults(parse).join('\n')).toContain(said);
    expect(parse.violations.every((violation) => violation.field === 'command.directPayload')).toBe(true);
  });

  it('takes 32 levels', () => {
    const text = `${'['.repeat(31)}{{params.x}}${']'.repeat(31)}`;
    expect(JSON.stringify(render(parseJsonText(text, 'f', ROOTS), { x: 1 }))).toBe(`${'['.repeat(31)}1${']'.repeat(31)}`);
  });

  it('names all faults of the placeholders at once', () => {
    expect(faults(parseJsonText('{"a": {{x.y}}, "b": "{{params.}} {{z}}", "b": 1}', 'f', ROOTS))).toHaveLength(4);
  });

  it('shows of long keys only the beginning', () => {
    const key = `${'k'.repeat(199)}\u{1f600}${'k'.repeat(60_000)}`; // cut within the pair
    const tree = { [key]: ['{{nothing}}', { [`{{${key}`]: 1 }] };
    const texts = [...faults(parseJsonValue(tree, 'f', ROOTS)), ...faults(parseJsonText(JSON.stringify({ [`{{${key}`]: 1 }), 'f', ROOTS))];
    expect(texts).toHaveLength(3);
    for (const text of texts) expect([text.length < 700, text]).toEqual([true, expect.stringContaining('more characters)')]);
    const { template } = parseJsonValue({ [key]: '{{params.none}}' }, 'f', ROOTS);
    const [missing] = template ? renderTemplate(template, { params: {} }, new InsertionRoom()).violations : [];
    expect(missing?.description).toMatch(/^has no value, but f needs one in .{190,230}… \(\d+ more characters\);/u);
  });

  it('knows its placeholders in order', () => {
    expect(parseJsonText('{"a": {{params.x}}, "b": ["{{device.id}}-{{params.y[2].z}}"]}', 'f', ROOTS).template?.placeholders.map((one) => one.steps)).toEqual([
      ['params', 'x'],
      ['device', 'id'],
      ['params', 'y', 2, 'z'],
    ]);
  });
});

describe('a JSON value with placeholders', () => {
  it('renders like the text of it', () => {
    expect(render(parseJsonValue({ a: '{{params.x}}', b: ['n {{params.x}}', 1, null], c: {} }, 'f', ROOTS), { x: [1, 2] })).toEqual({ a: [1, 2], b: ['n [1,2]', 1, null], c: {} });
  });

  it('says where a fault is', () => {
    const parse = parseJsonValue({ a: [{ b: 'x {{nope.x}}' }], '{{params.x}}': 1 }, 'f', ROOTS);
    expect(faults(parse)).toEqual([expect.stringContaining('{{nope.x}} in a[0].b begins with an unknown name'), expect.stringContaining('the key "{{params.x}}" may not hold a placeholder')]);
  });

  it.each<[string, JsonValue]>([
    ['__proto__', JSON.parse('{"a": {"__proto__": 1}}') as JsonValue],
    ['depth', JSON.parse(`${'['.repeat(40)}1${']'.repeat(40)}`) as JsonValue],
    ['a number that is not finite', { a: Number.NaN }],
  ])('refuses %s', (_name, value) => {
    expect(parseJsonValue(value, 'f', ROOTS).violations).toHaveLength(1);
  });
});

describe('a single value', () => {
  it.each<[string, Record<string, JsonValue>, JsonValue]>([
    ['{{params.x}}', { x: 42 }, 42],
    ['  {{params.x}} ', { x: false }, false],
    ['21.5', {}, 21.5],
    ['-3e2', {}, -300],
    ['true', {}, true],
    ['null', {}, null],
    ['"21.5"', {}, '21.5'],
    ['""', {}, ''],
    ['on', {}, 'on'],
    ['007', {}, '007'],
    ['{{params.x}} bar', { x: 2 }, '2 bar'],
    ['{"a": {{params.x}}}', { x: 2 }, { a: 2 }],
    ['[{{params.x}}]', { x: 'y' }, ['y']],
    ['"{{params.x}}"', { x: 2 }, 2],
  ])('%s is what it says', (text, params, expected) => {
    expect(render(parseValueText(text, 'f', ROOTS), params)).toEqual(expected);
  });

  it.each([
    ['   ', 'is blank'],
    ['{"a": }', 'a JSON value or {{path}} is expected'],
    ['x {{nope}}', '{{nope}} at character 3 begins with an unknown name'],
    ['12345678901234567890', 'would lose digits'],
  ])('refuses %p', (text, said) => {
    expect(faults(parseValueText(text, 'f', ROOTS)).join()).toContain(said);
  });
});

describe('rendering', () => {
  const scope = { params: { list: [1], text: 'abc', toString: 1 }, device: { id: 'd' } };

  it.each(['params.missing', 'params.list[1]', 'params.list.length', 'params.text[0]', 'params.text.length', 'params.constructor', 'params.__proto__', 'params.hasOwnProperty', 'device.id.x'])('finds no value at %s', (path) => {
    const { template } = parseJsonText(`[{{${path}}}, "and {{${path}}}"]`, 'command.directPayload', ROOTS);
    expect(template && renderTemplate(template, scope, new InsertionRoom()).violations).toEqual([{ field: path, description: expect.stringContaining('has no value, but command.directPayload needs one at character 2') as string }]);
  });

  it('names every path without a value', () => {
    const { template } = parseJsonText('[{{params.a}}, {{params.b}}, {{params.text}}]', 'f', ROOTS);
    expect(template && renderTemplate(template, scope, new InsertionRoom()).violations.map((violation) => violation.field)).toEqual(['params.a', 'params.b']);
  });

  it('does not grow beyond measure', () => {
    const { template } = parseJsonText(`"${'{{params.x}}'.repeat(5000)}"`, 'f', ROOTS);
    const result = template && renderTemplate(template, { params: { x: 'y'.repeat(60_000) } }, new InsertionRoom());
    expect(result?.violations).toEqual([{ field: 'f', description: expect.stringContaining(String(LARGEST_INSERTION)) as string }]);
  });

  it('shares its room with the other templates of its purpose, and still names what has no value', () => {
    const room = new InsertionRoom();
    const params = { x: 'y'.repeat(LARGEST_INSERTION / 2) };
    const violations = ['a', 'b', 'c'].map((field) => {
      const { template } = parseJsonText('[{{params.x}}, {{params.none}}]', field, ROOTS);
      return template && renderTemplate(template, { params }, room).violations.map((violation) => violation.field);
    });
    expect(violations).toEqual([['params.none'], ['b', 'params.none'], ['c', 'params.none']]);
  });

  it('does not become deeper than what can be sent', () => {
    const deep = JSON.parse(`${'['.repeat(30)}1${']'.repeat(30)}`) as JsonValue;
    const { template } = parseJsonText('{"a": {"b": {{params.x}}}}', 'f', ROOTS);
    expect(template && renderTemplate(template, { params: { x: deep } }, new InsertionRoom()).violations).toEqual([{ field: 'params.x', description: expect.stringContaining('deeper than 32') as string }]);
  });
});

describe('whatever the values are', () => {
  it('a text of JSON is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(jsonValue, fc.constantFrom(undefined, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        fc.pre(!text.includes('{{') && !/\d{16}/.test(text));
        expect(render(parseJsonText(text, 'f', ROOTS), {})).toEqual(JSON.parse(text));
      }),
      { seed: SEED },
    );
  });

  it('a value keeps its type and adds no key to what is around it', () => {
    fc.assert(
      fc.property(jsonValue, fc.string({ unit: 'grapheme' }), (x, y) => {
        const text = '{"a": {{params.x}}, "b": "{{params.x}}", "c": "<{{params.y}}>", "d": [{{params.y}}]}';
        const payload = render(parseJsonText(text, 'f', ROOTS), { x, y });
        expect(JSON.parse(JSON.stringify(payload))).toEqual({ a: x, b: x, c: `<${y}>`, d: [y] });
      }),
      { seed: SEED },
    );
  });

  it('any text at all is read or refused, never more', () => {
    const scrap = fc.array(fc.oneof(fc.constantFrom('{{', '}}', '{', '}', '[', ']', '"', ':', ',', '\\', 'params', '.x', '1', 'null', ' '), fc.string({ maxLength: 3 })), { maxLength: 40 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(scrap, (text) => {
        for (const parse of [parseJsonText(text, 'f', ROOTS), parseValueText(text, 'f', ROOTS), parseJsonValue([text], 'f', ROOTS)]) {
          expect(parse.template === undefined).toBe(parse.violations.length > 0);
          if (parse.template) renderTemplate(parse.template, { params: { x: 1 } }, new InsertionRoom());
        }
      }),
      { seed: SEED, numRuns: 1000 },
    );
  });
});
