import fc from 'fast-check';
import {
  InsertionBudget,
  MAX_INSERTION_LENGTH,
  parseJsonText,
  parseJsonValue,
  parseValueText,
  renderTemplate,
  type TemplateParseResult,
} from '../../src/kernel/jsonTemplate';
import type { JsonValue } from '../../src/kernel/jsonValue';

const ROOTS = ['params', 'device'];
const SEED = 20260102;

/** Generates values as they arrive over the wire: no `__proto__`, no unpaired surrogates, limited depth. */
const jsonValue = fc
  .jsonValue({ maxDepth: 4, stringUnit: 'grapheme' })
  .map((value) => JSON.parse(JSON.stringify(value).replaceAll('__proto__', 'proto')) as JsonValue);

function render(parse: TemplateParseResult, params: Record<string, JsonValue>): JsonValue {
  if (!parse.template) throw new Error(JSON.stringify(parse.violations));
  const { value, violations } = renderTemplate(
    parse.template,
    { params, device: { id: 'd-1' } },
    new InsertionBudget(),
  );
  if (value === undefined) throw new Error(JSON.stringify(violations));
  return value;
}

function listErrors(parse: TemplateParseResult): string[] {
  return parse.violations.map((violation) => violation.description);
}

describe('a JSON text with placeholders', () => {
  it.each<[string, string, Record<string, JsonValue>, JsonValue]>([
    [
      'plain JSON',
      '{"a": [1, -2.5e3, true, false, null, "x\\n\\u00e4"], "b": {}}',
      {},
      { a: [1, -2500, true, false, null, 'x\nä'], b: {} },
    ],
    ['an unquoted placeholder', '{"v": {{params.x}}}', { x: 21.5 }, { v: 21.5 }],
    ['an unquoted placeholder with blanks', ' { "v" : {{ params.x }} } ', { x: true }, { v: true }],
    ['a quoted placeholder that keeps the type', '{"v": "{{params.x}}"}', { x: 7 }, { v: 7 }],
    ['a placeholder in a longer text', '{"v": "set {{params.x}} of {{device.id}}"}', { x: 7 }, { v: 'set 7 of d-1' }],
    ['a string in a longer text', '["<{{params.x}}>"]', { x: 'a"b' }, ['<a"b>']],
    ['null in a longer text', '["<{{params.x}}>"]', { x: null }, ['<null>']],
    ['an object in a longer text', '["<{{params.x}}>"]', { x: { a: [1] } }, ['<{"a":[1]}>']],
    ['a step into an object and a list', '{{params.x.list[1].y-z}}', { x: { list: [0, { 'y-z': 'deep' }] } }, 'deep'],
    ['all parameters', '{{params}}', { x: 1 }, { x: 1 }],
    ['null is a value', '{{params.x}}', { x: null }, null],
    ['consecutive closing braces', '{"a":{"b":{{params.x}}}}', { x: 1 }, { a: { b: 1 } }],
    [
      'a value that looks like a template and stays a value',
      '["{{params.x}}", "-{{params.x}}"]',
      { x: '{{params.y}}' },
      ['{{params.y}}', '-{{params.y}}'],
    ],
  ])('renders %s', (_name, text, params, expected) => {
    expect(render(parseJsonText(text, 'f', ROOTS), params)).toEqual(expected);
  });

  it.each([
    [
      'an unknown root',
      '{"v": {{constructor.x}}}',
      '{{constructor.x}} at character 7 starts with an unknown name: start with params, device',
    ],
    ['no path', '{"v": {{}}}', '{{}} at character 7 is not a path'],
    ['a path that ends in a dot', '["{{params.}}"]', 'in the text at character 2 is not a path'],
    ['a path with a call', '["{{params.x()}}"]', 'is not a path'],
    ['a negative index', '["{{params.x[-1]}}"]', 'is not a path'],
    ['no closing braces', '{"v": {{params.x }', '"{{" at character 7 has no "}}"'],
    [
      'a placeholder as key',
      '{"{{params.x}}": 1}',
      'the key "{{params.x}}" at character 2 must not contain a placeholder',
    ],
    ['a duplicate key', '{"a": 1, "a": 2}', 'the key "a" at character 10 occurs twice'],
    ['the key __proto__', '{"__proto__": {"a": 1}}', 'the key "__proto__" at character 2 is not allowed'],
    ['nothing', '', 'the text ends at character 1: expected a JSON value or {{path}}'],
    ['a missing value', '{"a": }', '"}" found at character 7: expected a JSON value or {{path}}'],
    ['a trailing comma', '[1,]', '"]" found at character 4'],
    ['two values', '1 2', 'there is more text after the value'],
    ['a bare word', '{"a": on}', '"o" found at character 7'],
    ['an unquoted key', '{a: 1}', 'expected a key in double quotes'],
    ['an unterminated string', '["abc', 'is not a JSON string'],
    ['a control character in a string', '["a\nb"]', 'is not a JSON string'],
    ['a leading zero', '[01]', '"," or "]"'],
    ['a number that would lose digits', '[12345678901234567890]', 'the number at character 2 would lose digits'],
    ['a number that is too large', '[1e999]', 'the number at character 2 is too large'],
    ['an unpaired surrogate', '["\\ud800"]', 'an unpaired surrogate'],
    ['33 levels', `${'['.repeat(32)}1${']'.repeat(32)}`, 'nested deeper than 32 levels'],
    ['64 KiB of brackets', '['.repeat(65_536), 'nested deeper than 32 levels'],
  ])('rejects %s and names the position', (_name, text, message) => {
    const parse = parseJsonText(text, 'command.directPayload', ROOTS);
    expect(parse.template).toBeUndefined();
    expect(listErrors(parse).join('\n')).toContain(message);
    expect(parse.violations.every((violation) => violation.field === 'command.directPayload')).toBe(true);
  });

  it('accepts 32 levels', () => {
    const text = `${'['.repeat(31)}{{params.x}}${']'.repeat(31)}`;
    expect(JSON.stringify(render(parseJsonText(text, 'f', ROOTS), { x: 1 }))).toBe(
      `${'['.repeat(31)}1${']'.repeat(31)}`,
    );
  });

  it('reports all errors in placeholders at once', () => {
    expect(listErrors(parseJsonText('{"a": {{x.y}}, "b": "{{params.}} {{z}}", "b": 1}', 'f', ROOTS))).toHaveLength(4);
  });

  it('shortens long keys in its messages', () => {
    const key = `${'k'.repeat(199)}\u{1f600}${'k'.repeat(60_000)}`; // cut within the surrogate pair
    const tree = { [key]: ['{{nothing}}', { [`{{${key}`]: 1 }] };
    const texts = [
      ...listErrors(parseJsonValue(tree, 'f', ROOTS)),
      ...listErrors(parseJsonText(JSON.stringify({ [`{{${key}`]: 1 }), 'f', ROOTS)),
    ];
    expect(texts).toHaveLength(3);
    for (const text of texts)
      expect([text.length < 700, text]).toEqual([true, expect.stringContaining('more characters)')]);
    const { template } = parseJsonValue({ [key]: '{{params.none}}' }, 'f', ROOTS);
    const [missing] = template ? renderTemplate(template, { params: {} }, new InsertionBudget()).violations : [];
    expect(missing?.description).toMatch(/^has no value, but f needs one in .{190,230}… \(\d+ more characters\):/u);
  });

  it('lists its placeholders in order', () => {
    expect(
      parseJsonText(
        '{"a": {{params.x}}, "b": ["{{device.id}}-{{params.y[2].z}}"]}',
        'f',
        ROOTS,
      ).template?.placeholders.map((one) => one.steps),
    ).toEqual([
      ['params', 'x'],
      ['device', 'id'],
      ['params', 'y', 2, 'z'],
    ]);
  });
});

describe('a JSON value with placeholders', () => {
  it('renders like its text', () => {
    expect(
      render(parseJsonValue({ a: '{{params.x}}', b: ['n {{params.x}}', 1, null], c: {} }, 'f', ROOTS), { x: [1, 2] }),
    ).toEqual({ a: [1, 2], b: ['n [1,2]', 1, null], c: {} });
  });

  it('names the position of an error', () => {
    const parse = parseJsonValue({ a: [{ b: 'x {{nope.x}}' }], '{{params.x}}': 1 }, 'f', ROOTS);
    expect(listErrors(parse)).toEqual([
      expect.stringContaining('{{nope.x}} in a[0].b starts with an unknown name'),
      expect.stringContaining('the key "{{params.x}}" must not contain a placeholder'),
    ]);
  });

  it.each<[string, JsonValue]>([
    ['__proto__', JSON.parse('{"a": {"__proto__": 1}}') as JsonValue],
    ['depth', JSON.parse(`${'['.repeat(40)}1${']'.repeat(40)}`) as JsonValue],
    ['a number that is not finite', { a: Number.NaN }],
  ])('rejects %s', (_name, value) => {
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
  ])('%s is rendered as expected', (text, params, expected) => {
    expect(render(parseValueText(text, 'f', ROOTS), params)).toEqual(expected);
  });

  it.each([
    ['   ', 'is blank'],
    ['{"a": }', 'expected a JSON value or {{path}}'],
    ['x {{nope}}', '{{nope}} at character 3 starts with an unknown name'],
    ['12345678901234567890', 'would lose digits'],
  ])('rejects %p', (text, message) => {
    expect(listErrors(parseValueText(text, 'f', ROOTS)).join()).toContain(message);
  });
});

describe('rendering', () => {
  const scope = { params: { list: [1], text: 'abc', toString: 1 }, device: { id: 'd' } };

  it.each([
    'params.missing',
    'params.list[1]',
    'params.list.length',
    'params.text[0]',
    'params.text.length',
    'params.constructor',
    'params.__proto__',
    'params.hasOwnProperty',
    'device.id.x',
  ])('finds no value at %s', (path) => {
    const { template } = parseJsonText(`[{{${path}}}, "and {{${path}}}"]`, 'command.directPayload', ROOTS);
    expect(template && renderTemplate(template, scope, new InsertionBudget()).violations).toEqual([
      {
        field: path,
        description: expect.stringContaining(
          'has no value, but command.directPayload needs one at character 2',
        ) as string,
      },
    ]);
  });

  it('names every path without a value', () => {
    const { template } = parseJsonText('[{{params.a}}, {{params.b}}, {{params.text}}]', 'f', ROOTS);
    expect(
      template && renderTemplate(template, scope, new InsertionBudget()).violations.map((violation) => violation.field),
    ).toEqual(['params.a', 'params.b']);
  });

  it('limits the size of the result', () => {
    const { template } = parseJsonText(`"${'{{params.x}}'.repeat(5000)}"`, 'f', ROOTS);
    const result = template && renderTemplate(template, { params: { x: 'y'.repeat(60_000) } }, new InsertionBudget());
    expect(result?.violations).toEqual([
      { field: 'f', description: expect.stringContaining(String(MAX_INSERTION_LENGTH)) as string },
    ]);
  });

  it('shares its budget with the other templates of its purpose, and still names missing values', () => {
    const fixture = new InsertionBudget();
    const params = { x: 'y'.repeat(MAX_INSERTION_LENGTH / 2) };
    const violations = ['a', 'b', 'c'].map((field) => {
      const { template } = parseJsonText('[{{params.x}}, {{params.none}}]', field, ROOTS);
      return template && renderTemplate(template, { params }, fixture).violations.map((violation) => violation.field);
    });
    expect(violations).toEqual([['params.none'], ['b', 'params.none'], ['c', 'params.none']]);
  });

  it('limits the depth of the result to what can be sent', () => {
    const deep = JSON.parse(`${'['.repeat(30)}1${']'.repeat(30)}`) as JsonValue;
    const { template } = parseJsonText('{"a": {"b": {{params.x}}}}', 'f', ROOTS);
    expect(template && renderTemplate(template, { params: { x: deep } }, new InsertionBudget()).violations).toEqual([
      { field: 'params.x', description: expect.stringContaining('deeper than 32') as string },
    ]);
  });
});

describe('rendering random input', () => {
  it('reads a JSON text as JSON.parse does', () => {
    fc.assert(
      fc.property(jsonValue, fc.constantFrom(undefined, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        fc.pre(!text.includes('{{') && !/\d{16}/.test(text));
        expect(render(parseJsonText(text, 'f', ROOTS), {})).toEqual(JSON.parse(text));
      }),
      { seed: SEED },
    );
  });

  it('keeps the type of a value and adds no key around it', () => {
    fc.assert(
      fc.property(jsonValue, fc.string({ unit: 'grapheme' }), (x, y) => {
        const text = '{"a": {{params.x}}, "b": "{{params.x}}", "c": "<{{params.y}}>", "d": [{{params.y}}]}';
        const payload = render(parseJsonText(text, 'f', ROOTS), { x, y });
        expect(JSON.parse(JSON.stringify(payload))).toEqual({ a: x, b: x, c: `<${y}>`, d: [y] });
      }),
      { seed: SEED },
    );
  });

  it('reads or rejects any text', () => {
    const scrap = fc
      .array(
        fc.oneof(
          fc.constantFrom('{{', '}}', '{', '}', '[', ']', '"', ':', ',', '\\', 'params', '.x', '1', 'null', ' '),
          fc.string({ maxLength: 3 }),
        ),
        { maxLength: 40 },
      )
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(scrap, (text) => {
        for (const parse of [
          parseJsonText(text, 'f', ROOTS),
          parseValueText(text, 'f', ROOTS),
          parseJsonValue([text], 'f', ROOTS),
        ]) {
          expect(parse.template === undefined).toBe(parse.violations.length > 0);
          if (parse.template) renderTemplate(parse.template, { params: { x: 1 } }, new InsertionBudget());
        }
      }),
      { seed: SEED, numRuns: 1000 },
    );
  });
});
