import { readYaml } from '../../src/kernel/readYaml';
import { readToml } from '../../src/profiles/import/readToml';
import { normalizeRadioSettings, type RawRadioFields } from '../../src/profiles/import/radio';
import { detectRoles } from '../../src/profiles/import/scriptRoles';

const ALL: RawRadioFields = {
  macVersion: '1.0.3',
  regParamsRevision: 'A',
  supportsOtaa: true,
  supportsClassB: false,
  supportsClassC: false,
  uplinkInterval: undefined,
  deviceStatusReqInterval: undefined,
  flushQueueOnActivate: undefined,
};

function settings(words: Partial<RawRadioFields>): { readonly value: object; readonly notes: string[] } {
  const notes: string[] = [];
  const read = normalizeRadioSettings({ ...ALL, ...words }, (note) => notes.push(note));
  return { value: 'value' in read ? read.value : { problem: read.problem }, notes };
}

const roles = (text: string): string[] =>
  Object.entries(detectRoles({ name: 'a.js', text })).flatMap(([role, file]) => (file ? [role] : []));

describe('the settings of a profile', () => {
  it.each([
    ...['1.0.0', '1.0.1', '1.0.2', '1.0.3', '1.0.4', '1.1.0'].map((version): [string | number, string] => [
      version,
      version,
    ]),
    ['1.0', '1.0.0'],
    ['1.1', '1.1.0'],
    [1.1, '1.1.0'],
    ['LORAWAN_1_0_3', '1.0.3'],
    ['MAC_V1_0_2', '1.0.2'],
    ['LoRaWAN 1.0.4', '1.0.4'],
  ])('map LoRaWAN %s to %s', (written, macVersion) => {
    expect(settings({ macVersion: written })).toMatchObject({ value: { macVersion }, notes: [] });
  });

  it.each([['1.2'], ['1.0.5'], ['1'], ['11.0.3'], ['1.0.3b'], ['constructor'], [{}], [[]], [null], [undefined], ['']])(
    'have no LoRaWAN version for %p',
    (macVersion) => {
      expect(settings({ macVersion }).value).toEqual({
        problem: expect.stringMatching(/use one of 1\.0\.0, .*1\.1\.0$/) as string,
      });
    },
  );

  it.each([
    ...['A', 'a', 'TS001-1.0', 'TS001-1.0.1', 'RP001-1.0.2', 'RP001-1.0.3-RevA', 'RP001-1.1-RevA'].map(
      (revision) => [revision, 'A', 0] as const,
    ),
    ...['B', 'RP001-1.0.2-RevB', 'RP001-1.1-RevB'].map((revision) => [revision, 'B', 0] as const),
    ...['RP002-1.0.0', 'RP002-1.0.1', 'RP002-1.0.4'].map((revision) => [revision, revision, 0] as const),
    ['RP002_1_0_3', 'RP002-1.0.3', 0],
    ['RP003-2.0', 'RP003-2.0', 1],
    ['constructor', 'constructor', 1],
    [undefined, 'A', 1],
    ['x'.repeat(100), 'x'.repeat(64), 1],
  ] as const)('map the regional parameters %s to %s, with %i warnings', (written, regParamsRevision, warnings) => {
    const { value, notes } = settings({ regParamsRevision: written });
    expect([value, notes.length]).toMatchObject([{ regParamsRevision }, warnings]);
  });

  it('have defaults where a value is missing, and are kept otherwise', () => {
    const nothing = { supportsOtaa: undefined, supportsClassB: undefined, supportsClassC: null };
    expect(settings(nothing)).toEqual({
      value: {
        macVersion: '1.0.3',
        regParamsRevision: 'A',
        deviceStatusReqInterval: 1,
        uplinkInterval: 3600,
        flushQueueOnActivate: true,
        supportsClassB: false,
        supportsClassC: false,
        supportsOtaa: true,
      },
      notes: ['does not say whether the device supports OTAA; true is assumed'],
    });
    const declared = {
      supportsOtaa: false,
      supportsClassB: 'yes',
      supportsClassC: 'True',
      uplinkInterval: 1,
      deviceStatusReqInterval: '24',
      flushQueueOnActivate: false,
    };
    expect(settings(declared)).toMatchObject({
      value: {
        supportsOtaa: false,
        supportsClassB: true,
        supportsClassC: true,
        uplinkInterval: 1,
        deviceStatusReqInterval: 24,
        flushQueueOnActivate: false,
      },
      notes: [],
    });
    expect(
      settings({
        supportsClassB: 'constructor',
        supportsClassC: 2,
        uplinkInterval: 0,
        deviceStatusReqInterval: 2 ** 31,
      }),
    ).toMatchObject({
      value: { supportsClassB: false, supportsClassC: false, uplinkInterval: 3600, deviceStatusReqInterval: 1 },
      notes: { length: 4 },
    });
  });
});

describe('the roles of a script', () => {
  it.each([
    ['function decodeUplink(input) {}', ['decoder']],
    ['async function  encodeDownlink (input) {}', ['encoder']],
    ['function* Decode(fPort, bytes) {}', ['decoder']],
    ['var Encoder = function () {}', ['encoder']],
    ['const decodeDownlink=(input)=>({})', ['downlinkDecoder']],
    ['exports.decodeUplink = decode; exports.encodeDownlink = encode;', ['encoder', 'decoder']],
    ['module.exports = { decodeUplink: decode, encodeDownlink(input) { return {}; } };', ['encoder', 'decoder']],
    ["this['decodeUplink'] = f", ['decoder']],
    ['var quote = /"/; function Decoder(bytes, port) {}', ['decoder']],
    [
      'var quotes = [/["/]/, / \'/g]; var half = (1 + 2) / 3; function Decoder(bytes, port) { return 1 / 2; }',
      ['decoder'],
    ],
    [
      'function Decode() {}\nfunction Encode() {}\nfunction decodeDownlink() {}',
      ['encoder', 'decoder', 'downlinkDecoder'],
    ],
    ["var url = 'http://a'; function decodeUplink() {}", ['decoder']],
  ])('are found in %s', (text, expected) => {
    expect(roles(text)).toEqual(expected);
  });

  it.each([
    ['// function decodeUplink() {}'],
    ['/* function decodeUplink() {} */'],
    ['/* function decodeUplink() {}'],
    ['var text = "function decodeUplink() {}"'],
    ['var text = `\nfunction decodeUplink() {}`'],
    ['decodeUplink(input)'],
    ['if (decodeUplink == 1 || decodeUplink === 2) {}'],
    ['function decodeUplinkOld() {} function mydecodeUplink() {} $Decoder = 1'],
    [''],
  ])('are not found in %s', (text) => {
    expect(roles(text)).toEqual([]);
  });

  it.each([
    ['/*'],
    ['`\\`'],
    ['"\\"'],
    ['{ '],
    ['function '],
    ['decodeUplink('],
    ['decodeUplink  '],
    ['{decodeUplink('],
    ['=/['],
    ['=/('],
    ['=/\\'],
    ['=/[a]b'],
    ['/'],
    ['=/\u2028'],
    ['\\'],
    ['//'],
    ['/**'],
  ])('are found in limited time for 256 KiB of %j', (piece) => {
    for (const text of [
      piece.repeat((256 * 1024) / piece.length),
      `${piece.repeat((128 * 1024) / piece.length)}\\`,
      piece + ' '.repeat(256 * 1024),
    ])
      expect(roles(text)).toEqual([]);
  });

  // Eight times the maximum size of a script. Scanning to the end again from each beginning would take an hour.
  it.each([['"\\'], ["'\\"], ['`\\'], ['=/\\'], ['=/\\\n'], ['=/[\\'], ['=/[\\\n'], ['=/\\\u2028'], ['=/[\\\u2028']])(
    'are found in limited time for 2 MiB of %j',
    (piece) => {
      expect(roles(piece.repeat((2 * 1024 * 1024) / piece.length))).toEqual([]);
    },
  );
});

describe('TOML', () => {
  it.each([[`a = ${'['.repeat(500)}${']'.repeat(500)}`], [`${'a.'.repeat(500)}a = 1`], [`[${'a.'.repeat(500)}a]`]])(
    'number %# is nested too deep, with brackets or without',
    (text) => {
      expect(readToml(text)).toMatchObject({ problem: expect.stringContaining('nested') as string });
    },
  );
});

describe('YAML', () => {
  it('returns numbers as values or as they were written', () => {
    const text = 'a: [1.10, 0x1F, 007, 1e3, .5, -0, "1.0"]\n1.10: b\n';
    expect(readYaml(text, 'as written')).toEqual({
      value: { a: ['1.10', '0x1F', '007', '1e3', '.5', '-0', '1.0'], '1.10': 'b' },
    });
    expect(readYaml(text, 'values')).toEqual({ value: { a: [1.1, 31, 7, 1000, 0.5, -0, '1.0'], '1.10': 'b' } });
  });

  it('keeps __proto__ as a key like any other', () => {
    const read = readYaml('__proto__: {a: 1}\n', 'values');
    expect(JSON.stringify(read)).toBe('{"value":{"__proto__":{"a":1}}}');
    expect(({} as { a?: unknown }).a).toBeUndefined();
  });

  it.each([
    ['a: [', /^is not valid YAML: .* \(line 1, column 5\)$/],
    ['a: 1\nb: 2\na: 3', /^has the key "a" twice in one object \(line 3, column 1\)$/],
    ['? [a]\n: 1', /^has a key that is not a text \(line 1, column 3\)$/],
    ['a: *b', /^uses the alias \*b before its anchor \(line 1, column 4\)$|^is not valid YAML: /],
    ['a: &a [*a]', /^is nested deeper than 64 levels$/],
    [`${'['.repeat(70)}${']'.repeat(70)}`, /^is nested deeper than 64 levels$/],
    ...['[ ', '{a: ', '- ', '? ', '[&a ', '[!!seq ', '{"a":', '[ #\n'].map((piece): [string, RegExp] => [
      piece.repeat(200_000),
      /^is nested deeper than 64 levels$/,
    ]),
    ['a: 1\n---\nb: 2', /^is not valid YAML: Source contains multiple documents/],
    [
      [
        'a: &a0 ["lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol"]',
        ...Array.from({ length: 9 }, (_, at) => `b${at}: &a${at + 1} [${Array(9).fill(`*a${at}`).join(', ')}]`),
      ].join('\n'),
      /^expands to too much data/,
    ],
    [`a: &a ${'x'.repeat(500_000)}\nb: [*a, *a, *a, *a, *a, *a]`, /^expands to too much data/],
  ])('number %# is invalid', (text, problem) => {
    const read = readYaml(text, 'values');
    expect('problem' in read ? read.problem : read).toMatch(problem);
  });

  // Sixteen times the maximum size of a file. Recording each error would take minutes.
  it('stops at the first of many errors', () => {
    const limit = Error.stackTraceLimit;
    for (const piece of ['}', ']', '{}', '[a]\n'])
      expect(readYaml(piece.repeat((4 * 1024 * 1024) / piece.length), 'values')).toEqual({
        problem: expect.stringMatching(/^is not valid YAML: .* \(line \d, column \d\)$/) as string,
      });
    expect(Error.stackTraceLimit).toBe(limit);
  });

  it('merges tables with any number of keys; the first of several has priority, and local keys have priority over all', () => {
    const many = Array.from({ length: 25_000 }, (_, at) => `  k${at}:`).join('\n');
    expect(readYaml(`a: &a\n${many}\nb: [${Array(12).fill('{<<: *a}').join(', ')}]\n`, 'values')).toEqual({
      problem: expect.stringContaining('expands to too much data') as string,
    });
    const read = readYaml(`a:\n  <<:\n${many.replaceAll('  ', '    ')}\n`, 'values');
    expect('value' in read && Object.keys((read.value as { a: object }).a).length).toBe(25_000);
    expect(
      readYaml('a: &a {x: 1, y: 1, z: 1}\nb: &b {x: 2, y: 2}\nc: {x: 3, <<: [*b, *a]}\nd: {<<: text}\n', 'values'),
    ).toMatchObject({ value: { c: { x: 3, y: 2, z: 1 } } });
    // A text counts as a table of its characters: more of them than a call can have arguments.
    expect(readYaml(`a:\n  <<: ${'x'.repeat(200_000)}\n`, 'values')).toHaveProperty('value');
  });

  it('resolves a repeated anchor to its value at the point of use', () => {
    expect(readYaml('a: &x 1\nb: &y [*x]\nc: &x 2\nd: *y\ne: *x\n', 'values')).toEqual({
      value: { a: 1, b: [1], c: 2, d: [2], e: 2 },
    });
  });
});
