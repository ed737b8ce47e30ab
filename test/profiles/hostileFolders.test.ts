import { execFileSync } from 'node:child_process';
import fs, { cpSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, sep } from 'node:path';
import { openRepository } from '../../src/profiles';
import { resolvePath } from '../../src/profiles/import/sandboxedDirectory';
import {
  chirpStackFolder,
  DECODER,
  exampleChirpStack,
  exampleLorawanDevices,
  lorawanDevicesFolder,
  tomlProfile,
  yamlProfile,
} from '../support/profileFolders';
import { freshFolder, profileNames, readFolder, removeFolders, type ReadFolder } from '../support/readFolder';

afterAll(removeFolders);

const CANARY = 'c4n4ry';
const YAML = `name: ${CANARY}\ndescription: ${CANARY}\nendDevices: [lamp]\nmacVersion: 1.0.3\nregionalParametersVersion: ${CANARY}\nsupportsJoin: true\nuplinkDecoder: {fileName: secret.js, examples: [{description: ${CANARY}}]}\nfirmwareVersions: [{version: ${CANARY}, profiles: {EU868: {id: secret}}}]\n`;
const TOML = `[vendor]\nname = "${CANARY}"\n[device]\nname = "${CANARY}"\n[[device.firmware]]\nversion = "${CANARY}"\nprofiles = ["secret"]\n[profile]\nid = "${CANARY}"\nregion = "EU868"\nmac_version = "1.0.3"\nreg_params_revision = "${CANARY}"\nsupports_otaa = true\n`;

/**
 * Creates a checkout next to a folder with files that match everywhere and must not be read:
 * `checkout-outside/secret.*`.
 */
function withSecrets(): { readonly checkout: string; readonly outside: string } {
  const parent = freshFolder();
  const outside = join(parent, 'checkout-outside'); // begins like the checkout, but is another folder
  for (const folder of [outside, join(outside, 'profiles'), join(outside, 'devices'), join(outside, 'codecs')]) {
    mkdirSync(folder);
    for (const name of ['secret', 'index', 'vendor', 'lamp', 'EU868', 'eu', 'codec']) {
      writeFileSync(join(folder, `${name}.yaml`), YAML);
      writeFileSync(join(folder, `${name}.toml`), TOML);
      writeFileSync(join(folder, `${name}.js`), `${DECODER}// ${CANARY}`);
      writeFileSync(join(folder, `test_decode_${name}.json`), `[{"name": "${CANARY}"}]`);
    }
  }
  return { checkout: join(parent, 'checkout'), outside };
}

/** Reads everything, and fails if anything outside was opened or listed, or if its content shows. */
async function readGuarded(checkout: string): Promise<ReadFolder> {
  const [opened, listed] = [jest.spyOn(fs, 'openSync'), jest.spyOn(fs, 'readdirSync')];
  try {
    const result = await readFolder(checkout);
    const root = fs.realpathSync(checkout);
    const touched = [...opened.mock.calls, ...listed.mock.calls].map(([path]) => String(path));
    expect(touched.length).toBeGreaterThan(0);
    expect(touched.filter((path) => path !== root && !path.startsWith(root + sep))).toEqual([]);
    expect(JSON.stringify(result)).not.toContain(CANARY);
    return result;
  } finally {
    opened.mockRestore();
    listed.mockRestore();
  }
}

/** A valid vendor next to the invalid one, which must not affect it. */
const GOOD_YAML = {
  name: 'Good',
  devices: { lamp: { firmwareVersions: [{ version: '1', profiles: { EU868: { id: 'eu' } } }] } },
  profiles: { eu: yamlProfile() },
};
const GOOD_TOML = {
  name: 'Good',
  devices: { lamp: { device: { firmware: [{ version: '1', profiles: ['EU868'] }] } } },
  profiles: { EU868: tomlProfile('EU868') },
};

/** Lists file names that lead outside from a folder that is `depth` folders below the root, or that lead to no file. */
const escapes = (outside: string, depth: number): string[] => [
  `${'../'.repeat(depth + 1)}checkout-outside/secret`,
  `./x/../${'../'.repeat(depth + 1)}checkout-outside/secret`,
  `${'../'.repeat(40)}${outside.slice(1)}/secret`,
  join(outside, 'secret'),
  `${'..\\'.repeat(depth + 1)}checkout-outside\\secret`,
  'C:/checkout-outside/secret',
  `${'../'.repeat(depth + 1)}checkout-outside/secret\0`,
  'secret\0.yaml',
  '../../etc/passwd',
  '/etc/passwd',
  '..',
  '.',
  '/',
  `${'x/'.repeat(600)}secret`,
  'y'.repeat(5000),
];

const row = (fields: object): object => ({
  acre: {
    devices: { lamp: { firmwareVersions: [{ version: '1', profiles: { EU868: fields } }] } },
    profiles: { eu: yamlProfile() },
  },
});

function createCheckout(checkout: string, layout: 'yaml' | 'toml'): void {
  if (layout === 'yaml') {
    const acre = {
      ...GOOD_YAML,
      devices: { lamp: { firmwareVersions: [{ version: '1', profiles: { EU868: { id: 'eu', codec: 'codec' } } }] } },
      codecs: { codec: { uplinkDecoder: { fileName: 'codec.js' } } },
      files: { 'codec.js': DECODER },
    };
    lorawanDevicesFolder(checkout, { acre, good: GOOD_YAML });
  } else {
    const acre = {
      ...GOOD_TOML,
      devices: { lamp: { device: { firmware: [{ version: '1', profiles: ['EU868'], codec: 'codec' }] } } },
      codecs: { 'codec.js': DECODER, 'test_decode_codec.json': '[]' },
    };
    chirpStackFolder(checkout, { acre, good: GOOD_TOML });
  }
}

it('a path is joined within the repository, or rejected with the reason', () => {
  expect(
    [
      ['vendor/acre', 'a.yaml'],
      ['vendor/acre', '../good/./a.yaml'],
      ['.', 'a'],
      ['vendor/acre', '..a'],
      ['vendor/acre', '../../a'],
    ].map(([folder, name]) => resolvePath(folder ?? '', name ?? '')),
  ).toEqual(['vendor/acre/a.yaml', 'vendor/good/a.yaml', 'a', 'vendor/acre/..a', 'a'].map((value) => ({ value })));
  const refused = {
    '../../../a': 'points outside the repository; ',
    '../../..': 'points outside the repository; ',
    'a/../../../../b': 'points outside the repository; ',
    '/a': 'is an absolute path; ',
    'c:a': 'is an absolute path; ',
    'a\\b': 'contains a backslash; ',
    'a\0': 'contains a NUL ',
    [`${'a/'.repeat(500)}b`]: 'is longer than ',
  };
  for (const [name, problem] of Object.entries(refused))
    expect([name, resolvePath('vendor/acre', name)]).toEqual([
      name,
      { problem: expect.stringContaining(problem) as string },
    ]);
});

describe('a name that leads outside causes a warning, and nothing is read there', () => {
  it.each([
    [
      'the ID of a vendor',
      1,
      (name: string) => ({
        index: {
          vendors: [
            { id: name, name: 'Bad' },
            { id: 'good', name: 'Good' },
          ],
        },
      }),
    ],
    ['a device', 2, (name: string) => ({ vendors: { acre: { index: { endDevices: [name] } } } })],
    ['a profile', 2, (name: string) => ({ vendors: row({ id: name }) })],
    [
      'the vendor of a profile',
      1,
      (name: string) => ({ vendors: row({ id: 'eu', vendorID: name.replace(/\/secret$/, '') }) }),
    ],
    ['a codec', 2, (name: string) => ({ vendors: row({ id: 'eu', codec: name }) })],
    ['a codec of another vendor', 2, (name: string) => ({ vendors: row({ id: 'eu', vendorID: 'good', codec: name }) })],
    [
      'a script',
      2,
      (name: string) => ({
        vendors: {
          acre: {
            devices: {
              lamp: { firmwareVersions: [{ version: '1', profiles: { EU868: { id: 'eu', codec: 'codec' } } }] },
            },
            profiles: { eu: yamlProfile() },
            codecs: { codec: { uplinkDecoder: { fileName: `${name}.js` } } },
          },
        },
      }),
    ],
  ])('in the YAML layout: %s', async (_, depth, buildContent) => {
    const { checkout, outside } = withSecrets();
    for (const name of escapes(outside, depth)) {
      const { vendors = {}, index } = buildContent(name) as { vendors?: Record<string, object>; index?: object };
      lorawanDevicesFolder(checkout, { ...vendors, good: GOOD_YAML }, index);
      const result = await readGuarded(checkout);
      expect(profileNames(result.vendors.good)).toEqual(['lamp/1/EU868']);
      expect(profileNames(result.vendors.acre)).toEqual([]);
      expect({ name, warnings: result.warnings.length }).toEqual({ name, warnings: expect.any(Number) as number });
      expect(result.warnings.length).toBeGreaterThan(0);
      rmSync(checkout, { recursive: true });
    }
  });

  it.each([
    ['a device', (name: string) => ({ vendor: { vendor: { name: 'Bad', devices: [name] } } })],
    [
      'a profile',
      (name: string) => ({ devices: { lamp: { device: { firmware: [{ version: '1', profiles: [name] }] } } } }),
    ],
    [
      'a codec',
      (name: string) => ({
        devices: { lamp: { device: { firmware: [{ version: '1', profiles: ['EU868'], codec: name }] } } },
        profiles: GOOD_TOML.profiles,
      }),
    ],
  ])('in the TOML layout: %s', async (_, buildContent) => {
    const { checkout, outside } = withSecrets();
    for (const name of escapes(outside, 3)) {
      chirpStackFolder(checkout, { acre: buildContent(name), good: GOOD_TOML });
      const result = await readGuarded(checkout);
      expect(profileNames(result.vendors.good)).toEqual(['lamp/1/EU868']);
      expect(profileNames(result.vendors.acre)).toEqual([]);
      expect(result.warnings.length).toBeGreaterThan(0);
      rmSync(checkout, { recursive: true });
    }
  });
});

describe('links', () => {
  const YAML_FILES = [
    'vendor/index.yaml',
    'vendor/acre',
    'vendor/acre/index.yaml',
    'vendor/acre/lamp.yaml',
    'vendor/acre/eu.yaml',
    'vendor/acre/codec.yaml',
    'vendor/acre/codec.js',
  ];
  const TOML_FILES = [
    'vendors/acre',
    'vendors/acre/vendor.toml',
    'vendors/acre/devices',
    'vendors/acre/devices/lamp.toml',
    'vendors/acre/profiles',
    'vendors/acre/profiles/EU868.toml',
    'vendors/acre/codecs',
    'vendors/acre/codecs/codec.js',
    'vendors/acre/codecs/test_decode_codec.json',
  ];

  const ALL = [
    ...YAML_FILES.map((file) => ['yaml', file] as const),
    ...TOML_FILES.map((file) => ['toml', file] as const),
  ];

  it.each(ALL)('are not followed in the %s layout if %s leads outside', async (layout, file) => {
    const { checkout, outside } = withSecrets();
    createCheckout(checkout, layout);
    const extension = /\.\w+$/.exec(file)?.[0];
    for (const target of [
      extension
        ? join(outside, file.includes('test_decode') ? 'test_decode_codec.json' : `codec${extension}`)
        : outside,
      '/etc/passwd',
      `${'../'.repeat(40)}etc`,
    ]) {
      rmSync(join(checkout, file), { recursive: true, force: true });
      symlinkSync(target, join(checkout, file));
      if (file === 'vendor/index.yaml')
        expect(() => openRepository(checkout)).toThrow(expect.objectContaining({ reason: 'not_a_profile_repository' }));
      else {
        const result = await readGuarded(checkout);
        expect(profileNames(result.vendors.good)).toEqual(['lamp/1/EU868']);
        expect(result.warnings.length).toBeGreaterThan(0);
      }
    }
  });

  it.each(ALL.filter(([, file]) => file !== 'vendor/index.yaml'))(
    'affect only what needs them in the %s layout if %s is a circular link, a FIFO or a folder',
    async (layout, file) => {
      const checkout = freshFolder();
      createCheckout(checkout, layout);
      const path = join(checkout, file);
      const obstacles = [
        () => symlinkSync(path, path),
        () => execFileSync('mkfifo', [path]),
        ...(/\.\w+$/.test(file) ? [() => mkdirSync(path)] : [() => writeFileSync(path, '')]),
      ];
      for (const obstacle of obstacles) {
        rmSync(path, { recursive: true, force: true });
        obstacle();
        const result = await readGuarded(checkout);
        expect(profileNames(result.vendors.good)).toEqual(['lamp/1/EU868']);
        expect(profileNames(result.vendors.acre)).toEqual(file.includes('test_decode') ? ['lamp/1/EU868'] : []);
      }
    },
  );

  it.each(ALL)('are read in the %s layout if %s stays inside', async (layout, file) => {
    const checkout = freshFolder();
    createCheckout(checkout, layout);
    const before = JSON.stringify(await readFolder(checkout));
    renameSync(join(checkout, file), join(checkout, 'elsewhere'));
    symlinkSync(join(checkout, 'elsewhere'), join(checkout, file));
    expect(JSON.stringify(await readGuarded(checkout))).toBe(before);
  });

  it('are not followed from the folder of the vendors to a missing folder', () => {
    for (const [createFolder, vendors] of [
      [exampleLorawanDevices, 'vendor'],
      [exampleChirpStack, 'vendors'],
    ] as const) {
      const { checkout, outside } = withSecrets();
      createFolder(outside);
      mkdirSync(checkout);
      symlinkSync(join(outside, vendors), join(checkout, vendors));
      expect(() => openRepository(checkout)).toThrow(expect.objectContaining({ reason: 'not_a_profile_repository' }));
    }
  });
});

it('a socket is not read as a file', async () => {
  const checkout = lorawanDevicesFolder(freshFolder(), { good: GOOD_YAML });
  const path = join(checkout, 'vendor/good/eu.yaml');
  rmSync(path);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(path, resolve));
  try {
    expect((await readGuarded(checkout)).warnings[0]).toEqual({
      file: 'vendor/good/eu.yaml',
      reason: 'is not a regular file; therefore not imported: 1 profile of the model "lamp"',
    });
  } finally {
    server.close();
  }
});

const six = (name: string): object => ({
  name,
  firmwareVersions: Array.from({ length: 6 }, (_, at) => ({ version: `${at}`, profiles: { EU868: { id: 'eu' } } })),
});

describe('large input', () => {
  it('with twenty thousand files is skipped or counted', async () => {
    const checkout = chirpStackFolder(freshFolder(), {
      acre: { ...GOOD_TOML, vendor: { vendor: { name: 'Acre' } } },
      good: GOOD_TOML,
    });
    const devices = join(checkout, 'vendors/acre/devices');
    for (let at = 0; at < 20_000; at += 1) fs.closeSync(fs.openSync(join(devices, `x${at}.toml`), 'w'));
    const { vendors } = await readFolder(checkout);
    expect(profileNames(vendors.good)).toEqual(['lamp/1/EU868']);
    expect(profileNames(vendors.acre)).toEqual(['lamp/1/EU868']);
    expect(vendors.acre?.warnings[0]).toEqual({
      file: 'vendors/acre/vendor.toml',
      reason: 'lists 20001 devices; only the first 5000 are imported',
    });
    expect(vendors.acre?.warnings).toHaveLength(101);
  });

  it('from one vendor is limited to the maximum of profiles, and the rest is skipped', async () => {
    const yaml = lorawanDevicesFolder(freshFolder(), {
      acre: { devices: { one: six('One'), two: six('Two'), three: six('Three') }, profiles: { eu: yamlProfile() } },
      good: GOOD_YAML,
    });
    const toml = chirpStackFolder(freshFolder(), {
      acre: {
        devices: Object.fromEntries(
          ['one', 'two', 'three'].map((name) => [
            name,
            { device: { firmware: Array.from({ length: 6 }, (_, at) => ({ version: `${at}`, profiles: ['EU868'] })) } },
          ]),
        ),
        profiles: GOOD_TOML.profiles,
      },
      good: GOOD_TOML,
    });
    for (const [folder, list] of [
      [yaml, 'vendor/acre/index.yaml'],
      [toml, 'vendors/acre/vendor.toml'],
    ] as const) {
      const { vendors, warnings } = await readFolder(folder, { profiles: 10, bytes: 1000 });
      expect([
        profileNames(vendors.acre).length,
        profileNames(vendors.good),
        vendors.acre?.incompleteModels.all,
      ]).toEqual([10, ['lamp/1/EU868'], true]);
      expect(warnings).toEqual([
        { file: list, reason: 'has more than 10 profiles; the rest of the vendor is not imported' },
      ]);
      expect((await readFolder(folder)).warnings).toEqual([]);
    }
  });

  it('from one vendor is limited to the maximum of codecs, even if all name one script', async () => {
    const rows = Array.from({ length: 9 }, (_, at) => ({
      version: `${at}`,
      profiles: { EU868: { id: 'eu', codec: `c${at}` } },
    }));
    const codecs = Object.fromEntries(
      rows.map((_, at) => [
        `c${at}`,
        { uplinkDecoder: { fileName: 'one.js' }, downlinkEncoder: { fileName: 'one.js' } },
      ]),
    );
    const folder = lorawanDevicesFolder(freshFolder(), {
      acre: {
        devices: { lamp: { firmwareVersions: rows } },
        profiles: { eu: yamlProfile() },
        codecs,
        files: { 'one.js': DECODER.padEnd(1000) },
      },
      good: GOOD_YAML,
    });
    const { vendors, warnings } = await readFolder(folder, { profiles: 100, bytes: 4096 });
    expect([profileNames(vendors.acre).length, vendors.acre?.codecs.length]).toEqual([4, 4]);
    expect(warnings).toEqual([
      {
        file: 'vendor/acre/index.yaml',
        reason: 'has more than 4 KiB of scripts and examples; the rest of the vendor is not imported',
      },
    ]);
    expect((await readFolder(folder)).vendors.acre?.codecs).toHaveLength(9);
  });

  it('with unexpected content is rejected, and files over 256 KiB are not read', async () => {
    const max = 256 * 1024;
    for (const piece of [
      '[',
      '- ',
      '? ',
      '{a: ',
      '}',
      ']',
      '{}',
      '- - -',
      '"',
      '&a ',
      '*a ',
      '!!a ',
      'a:\n',
      '%a\n',
      '\t',
      '\0',
      '|',
      '[a]\n',
      'a=[',
      '"""',
      "'''",
      'a.',
      '[[a.b]]\n',
    ]) {
      const text = piece.repeat(Math.floor(max / 16 / piece.length));
      const yaml = await readFolder(
        lorawanDevicesFolder(freshFolder(), {
          acre: { index: { endDevices: ['lamp'] }, devices: { lamp: text } },
          good: GOOD_YAML,
        }),
      );
      const toml = await readFolder(
        chirpStackFolder(freshFolder(), { acre: { devices: { lamp: text } }, good: GOOD_TOML }),
      );
      for (const { vendors, warnings } of [yaml, toml])
        expect([piece, vendors.acre?.models, profileNames(vendors.good), warnings.length > 0]).toEqual([
          piece,
          [],
          ['lamp/1/EU868'],
          true,
        ]);
    }
    const tooLarge = await readFolder(
      lorawanDevicesFolder(freshFolder(), {
        acre: { index: { endDevices: ['lamp'] }, devices: { lamp: '#'.repeat(max + 1) } },
      }),
    );
    expect(tooLarge.warnings).toEqual([
      {
        file: 'vendor/acre/lamp.yaml',
        reason: 'has 257 KiB; the maximum is 256 KiB; the device "lamp" is not imported',
      },
    ]);
    const examples = await readFolder(
      chirpStackFolder(freshFolder(), {
        good: {
          ...GOOD_TOML,
          devices: { lamp: { device: { firmware: [{ version: '1', profiles: ['EU868'], codec: 'codec' }] } } },
          codecs: { 'codec.js': DECODER, 'test_decode_codec.json': `[{}${' '.repeat(2 * max)}]` },
        },
      }),
    );
    expect([examples.warnings, examples.vendors.good?.codecs[0]?.examples]).toMatchObject([[], [{ items: [{}] }]]);
  });
});

it('no code of a script or of the files next to it is run', async () => {
  const folder = freshFolder();
  const mark = join(folder, 'was-run');
  const script = `require('fs').writeFileSync(${JSON.stringify(mark)}, ''); globalThis.wasRun = true; ${DECODER}`;
  lorawanDevicesFolder(folder, {
    acre: {
      devices: { lamp: { firmwareVersions: [{ version: '1', profiles: { EU868: { id: 'eu', codec: 'codec' } } }] } },
      profiles: { eu: yamlProfile() },
      codecs: { codec: `!!js/function "x": 1\nuplinkDecoder: {fileName: codec.js}\n` },
      files: { 'codec.js': script, 'package.json': '{"scripts": {"install": "touch was-run"}}' },
    },
  });
  const copy = freshFolder();
  cpSync(folder, copy, { recursive: true });
  expect((await readFolder(copy)).vendors.acre?.codecs[0]?.scripts.decoder?.text).toBe(script);
  expect([fs.existsSync(mark), 'wasRun' in globalThis]).toEqual([false, false]);
});
