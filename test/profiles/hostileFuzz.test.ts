import fc from 'fast-check';
import fs, { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { REGIONS } from '../../src/profiles/regions';
import { exampleChirpStack, exampleLorawanDevices } from '../support/profileFolders';
import { freshFolder, readFolder, removeFolders, type ReadFolder } from '../support/readFolder';

afterAll(removeFolders);

const SEED = 20_261_122;
/** Difficult pieces for parsers, paths and IDs. */
const PIECES = [
  '../',
  '../../../../etc/passwd',
  '/',
  '\\',
  '\0',
  '"',
  "'",
  '`',
  '{',
  '}',
  '[',
  ']',
  ':',
  ': ',
  '- ',
  '&a ',
  '*a',
  '<<: *a',
  '!!js/function ',
  '|',
  '>',
  '#',
  '%',
  '\n',
  '\t',
  '\uFEFF',
  '=',
  '[[',
  ']]',
  '"""',
  '1e999',
  '-0',
  '__proto__',
  'constructor',
  'null',
  '~',
  'é',
  '/*',
  '//',
  'x'.repeat(200),
].map((piece) => Buffer.from(piece));

/** A change of a file: from `at` (a share of its length), `length` bytes are replaced. */
const MUTATION = fc.record({
  file: fc.nat(),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.oneof(fc.constant(0), fc.nat({ max: 40 }), fc.constant(1_000_000)),
  instead: fc.oneof(fc.constantFrom(...PIECES), fc.constant('swap' as const), fc.uint8Array({ maxLength: 8 })),
});

function mutate(
  bytes: Buffer,
  { at, length, instead }: typeof MUTATION extends fc.Arbitrary<infer T> ? T : never,
): Buffer {
  const from = Math.floor(at * bytes.length);
  const [before, replaced, after] = [
    bytes.subarray(0, from),
    bytes.subarray(from, from + length),
    bytes.subarray(from + length),
  ];
  return instead === 'swap' ? Buffer.concat([before, after, replaced]) : Buffer.concat([before, instead, after]);
}

const ID = /^[^/\s\p{Cc}]{1,128}$/u;

/** Fails if the result could not be stored. */
function check({ vendors, warnings }: ReadFolder): void {
  for (const { file, reason } of warnings)
    expect([file, reason]).toEqual([expect.stringMatching(/^[^\p{Cc}]+$/u), expect.stringMatching(/^[^\p{Cc}]{5,}$/u)]);
  for (const [brand, { models, codecs }] of Object.entries(vendors)) {
    const names = new Set(codecs.map(({ name }) => name));
    expect(names.size).toBe(codecs.length);
    const ids = models.flatMap((model) =>
      model.profiles.map((profile) => [brand, model.id, profile.firmwareVersion, profile.region]),
    );
    expect(new Set(ids.map((parts) => parts.join('/'))).size).toBe(ids.length);
    for (const part of ids.flat()) expect(part).toMatch(ID);
    for (const { profiles, name } of models) {
      expect([profiles.length > 0, name]).toEqual([true, expect.stringMatching(/\S/)]);
      for (const { region, codec, payloadCodecRuntime } of profiles)
        expect([
          (REGIONS as readonly string[]).includes(region),
          codec === undefined || names.has(codec),
          payloadCodecRuntime === 'JS',
        ]).toEqual([true, true, codec !== undefined]);
    }
    for (const { scripts, examples } of codecs) {
      expect(Object.values(scripts).some(Boolean)).toBe(true);
      for (const { items, role } of examples)
        expect([JSON.parse(JSON.stringify(items)), scripts[role] !== undefined]).toEqual([items, true]);
    }
  }
}

it.each([
  ['lorawan-devices', exampleLorawanDevices],
  ['chirpstack-device-profiles', exampleChirpStack],
])(
  'any change of the files of %s is read or reported: no error is thrown, nothing outside is read',
  async (_, createCheckout) => {
    const checkout = createCheckout(freshFolder());
    const files = readdirSync(checkout, { recursive: true, withFileTypes: true })
      .flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []))
      .toSorted();
    const good = new Map(files.map((file) => [file, readFileSync(file)]));
    const whole = JSON.stringify(await readFolder(checkout));
    const root = fs.realpathSync(checkout) + sep;
    const opened = jest.spyOn(fs, 'openSync');
    let changed = 0;
    try {
      await fc.assert(
        fc.asyncProperty(fc.array(MUTATION, { minLength: 1, maxLength: 4 }), async (mutations) => {
          const touched = new Map<string, Buffer>();
          for (const mutation of mutations) {
            const file = files[mutation.file % files.length] ?? '';
            touched.set(file, mutate(touched.get(file) ?? good.get(file) ?? Buffer.alloc(0), mutation));
          }
          for (const [file, bytes] of touched) writeFileSync(file, bytes);
          opened.mockClear();
          try {
            const result = await readFolder(checkout);
            check(result);
            changed += Number(JSON.stringify(result) !== whole);
            expect(opened.mock.calls.map(([path]) => String(path)).filter((path) => !path.startsWith(root))).toEqual(
              [],
            );
          } finally {
            for (const file of touched.keys()) writeFileSync(file, good.get(file) ?? '');
          }
        }),
        { seed: SEED, numRuns: 200 },
      );
    } finally {
      opened.mockRestore();
    }
    // The changes affected the files that are read.
    expect(changed).toBeGreaterThan(115);
    expect(JSON.stringify(await readFolder(checkout))).toBe(whole);
  },
);
