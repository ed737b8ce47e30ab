import fc from 'fast-check';
import { checkMappings } from '../../src/devices/device';
import { normalizeSourcePath, formatSourcePath, parseSourcePath, type PathStep } from '../../src/devices/sourcePath';

const SEED = 20_261_121;
const NAMES = fc.oneof(
  fc.constantFrom(
    '',
    'a',
    'relays',
    '0',
    '-',
    '__proto__',
    'constructor',
    'a.b',
    'a[0]',
    '"',
    '\\',
    '\u0000',
    '\uD800',
    'grün',
    '😀',
    '["x"]',
  ),
  fc.string(),
  fc.string({ unit: 'binary' }),
);
const STEPS = fc
  .tuple(NAMES, fc.array(fc.oneof<fc.Arbitrary<PathStep>[]>(NAMES, fc.nat(999_999_999)), { maxLength: 12 }))
  .map(([first, rest]): PathStep[] => [first, ...rest]);

describe('source paths', () => {
  it.each<[string, PathStep[]]>([
    ['temperature', ['temperature']],
    ['object.temperature', ['object', 'temperature']],
    ['data.relays[0]', ['data', 'relays', 0]],
    ['data[1][20].on', ['data', 1, 20, 'on']],
    ['a-b_c.0', ['a-b_c', '0']],
    ['["a.b"]', ['a.b']],
    ['data["room temperature"].value', ['data', 'room temperature', 'value']],
    ['data[""]', ['data', '']],
    [String.raw`data["a\"b\\c"]`, ['data', 'a"b\\c']],
    ['__proto__.constructor', ['__proto__', 'constructor']],
  ])('parses %s', (text, steps) => {
    expect(parseSourcePath(text)).toEqual(steps);
    expect(formatSourcePath(steps)).toBe(text);
  });

  it.each([
    ['data["relays"]', 'data.relays'],
    [String.raw`["\u0061"]`, 'a'],
    ['["a"]["b c"]', 'a["b c"]'],
  ])('normalizes %s', (text, canonical) => {
    expect(normalizeSourcePath(text)).toBe(canonical);
  });

  it.each([
    '',
    '.',
    '.a',
    'a.',
    'a..b',
    '[0]',
    'a[',
    'a[]',
    'a[01]',
    'a[-1]',
    'a[1.5]',
    'a[1234567890]',
    'a b',
    'a["b]',
    "a['b']",
    'a["b"]c',
    'a.["b"]',
    'a.[0]',
    'ä',
    'a["\u0001"]',
    String.raw`a["\x"]`,
    ' a',
    'a ',
    'a[0]b',
  ])('rejects %j', (text) => {
    expect(parseSourcePath(text)).toBeUndefined();
    expect(checkMappings([{ sensorId: 's', sourcePath: text }]).map(({ field }) => field)).toEqual([
      'mappings[0].sourcePath',
    ]);
  });

  it('round-trip through parsing and formatting, and different steps give different texts', () => {
    fc.assert(
      fc.property(STEPS, STEPS, (one, other) => {
        const text = formatSourcePath(one);
        expect(parseSourcePath(text)).toEqual(one);
        expect(normalizeSourcePath(text)).toBe(text);
        expect(text === formatSourcePath(other)).toBe(JSON.stringify(one) === JSON.stringify(other));
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('parse any text safely', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a."\\[\]0]{0,60}$/)), (text) => {
        const steps = parseSourcePath(text);
        if (steps) expect(parseSourcePath(formatSourcePath(steps))).toEqual(steps);
        else expect(normalizeSourcePath(text)).toBe(text);
      }),
      { seed: SEED, numRuns: 1000 },
    );
  });

  it('find mappings that repeat a path or a sensor in any notation', () => {
    const mappings = [
      { sensorId: 'one', sourcePath: 'a.b' },
      { sensorId: 'two', sourcePath: 'a["b"]' },
      { sensorId: 'one', sourcePath: 'c' },
      { sensorId: 'three', sourcePath: `a.${'x'.repeat(511)}` },
    ];
    expect(checkMappings(mappings).map(({ field }) => field)).toEqual([
      'mappings[1].sourcePath',
      'mappings[2].sensorId',
      'mappings[3].sourcePath',
    ]);
  });
});
