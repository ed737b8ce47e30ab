import {
  DECODER,
  ENCODER,
  lorawanDevicesFolder,
  VALVE_CODEC,
  yamlProfile,
  type LorawanDevicesVendor,
} from '../support/profileFolders';
import { freshFolder, profileNames, readFolder, removeFolders } from '../support/readFolder';

afterAll(removeFolders);

/** Creates a vendor whose only device has one firmware version, in the region EU863-870. */
function lampVendor(given: LorawanDevicesVendor = {}): LorawanDevicesVendor {
  return {
    ...given,
    devices: { lamp: device({ 'EU863-870': { id: 'eu' } }), ...given.devices },
    profiles: { eu: yamlProfile(), ...given.profiles },
  };
}

function device(profiles: object, version: unknown = '1.0'): object {
  return { name: 'Lamp', description: 'Is bright', firmwareVersions: [{ version, profiles }] };
}

/** Reads a repository with this vendor, called `acre`, and others. */
async function read(
  vendor: LorawanDevicesVendor,
  others: Readonly<Record<string, LorawanDevicesVendor>> = {},
): Promise<Awaited<ReturnType<typeof readFolder>> & { readonly names: string[]; readonly reasons: string[] }> {
  const folder = await readFolder(lorawanDevicesFolder(freshFolder(), { acre: vendor, ...others }));
  return {
    ...folder,
    names: profileNames(folder.vendors.acre),
    reasons: folder.warnings.map(({ file, reason }) => `${file}: ${reason}`),
  };
}

const firmware = (hardwareVersions: string[] | undefined, id = 'eu'): object => ({
  version: '1.0',
  ...(hardwareVersions ? { hardwareVersions } : {}),
  profiles: { 'EU863-870': { id } },
});

const foreignProfile = (codec: string): object => ({ id: 'eu', vendorID: 'module-maker', codec });

const profilesFor = async (...listed: (readonly [string[], string])[]): Promise<Record<string, string>> => {
  const { vendors } = await read(
    lampVendor({
      devices: { lamp: { firmwareVersions: listed.map(([hardware, id]) => firmware(hardware, id)) } },
      profiles: {
        nine: yamlProfile({ macVersion: '1.0.1' }),
        ten: yamlProfile({ macVersion: '1.0.2' }),
        eleven: yamlProfile({ macVersion: '1.0.4' }),
      },
    }),
  );
  return Object.fromEntries(
    (vendors.acre?.models[0]?.profiles ?? []).map(({ firmwareVersion, macVersion }) => [firmwareVersion, macVersion]),
  );
};

describe('versions and names', () => {
  it('are kept as they were written, although YAML reads them as numbers', async () => {
    const { vendors, reasons } = await read({
      index: 'endDevices:\n  - 0123\n  - 1e3\n',
      devices: {
        '0123':
          'name: 7.50\nfirmwareVersions:\n  - {version: 1.10, hardwareVersions: [2.0, 0x1F, rev. B], profiles: {EU863-870: {id: 868, codec: 1.0}}}\n  - {version: 1.1, profiles: {EU863-870: {id: 868}}}\n  - {version: 2020-01-02, profiles: {EU863-870: {id: 868}}}\n  - {version: true, profiles: {EU863-870: {id: 868}}}\n',
        '1e3': device({ 'EU863-870': { id: '868' } }),
      },
      profiles: { 868: 'macVersion: 1.1\nregionalParametersVersion: RP001-1.1-RevB\nsupportsJoin: true\n' },
      codecs: { '1.0': { uplinkDecoder: { fileName: 'lamp.js' } } },
      files: { 'lamp.js': DECODER },
    });
    expect(reasons).toEqual([]);
    expect(profileNames(vendors.acre)).toEqual([
      '0123/1.10/EU868',
      '0123/1.1/EU868',
      '0123/2020-01-02/EU868',
      '0123/true/EU868',
      '1e3/1.0/EU868',
    ]);
    const [first] = vendors.acre?.models ?? [];
    expect(first).toMatchObject({
      name: '7.50',
      profiles: [
        { macVersion: '1.1.0', regParamsRevision: 'B', hardwareVersions: ['2.0', '0x1F', 'rev. B'], codec: '1.0' },
        {},
        {},
        {},
      ],
    });
  });

  it('of one firmware for several hardware versions are kept apart, and real duplicates are reported', async () => {
    const { names, reasons } = await read(
      lampVendor({
        devices: {
          lamp: {
            firmwareVersions: [
              firmware(['A']),
              firmware(['C/D', 'B']),
              firmware(['A']),
              firmware(undefined),
              firmware(['B', 'E']),
            ],
          },
        },
      }),
    );
    expect(names).toEqual(['lamp/1.0-hwA/EU868', 'lamp/1.0-hwB/EU868', 'lamp/1.0/EU868']);
    expect(reasons).toEqual([
      'vendor/acre/lamp.yaml: has firmware "1.0-hwA" for EU868 more than once; the first is imported',
      'vendor/acre/lamp.yaml: has firmware "1.0-hwB" for EU868 more than once; the first is imported',
    ]);
  });

  it('of the oldest hardware are not changed by newer hardware, wherever that is listed', async () => {
    const two = { '1.0': '1.0.1', '1.0-hwv1.10': '1.0.2' };
    expect(await profilesFor([['v1.9'], 'nine'])).toEqual({ '1.0': '1.0.1' });
    expect(await profilesFor([['v1.9'], 'nine'], [['v1.10'], 'ten'])).toEqual(two);
    expect(await profilesFor([['v1.10'], 'ten'], [['v1.9'], 'nine'])).toEqual(two);
    expect(await profilesFor([['v1.11'], 'eleven'], [['v1.10', 'v1.12'], 'ten'], [['v1.13', 'v1.9'], 'nine'])).toEqual({
      ...two,
      '1.0-hwv1.11': '1.0.4',
    });
  });

  it('are joined where one firmware is listed once for each region', async () => {
    const { names, reasons } = await read(
      lampVendor({
        devices: {
          lamp: {
            firmwareVersions: [
              { version: '1.0', profiles: { EU868: { id: 'eu' } } },
              { version: '1.0', profiles: { IN_865_867: { id: 'eu' } } },
            ],
          },
        },
      }),
    );
    expect([names, reasons]).toEqual([['lamp/1.0/EU868', 'lamp/1.0/IN865'], []]);
  });

  it('that cannot be used affect what they name', async () => {
    const { names, reasons } = await read(
      lampVendor({
        devices: {
          lamp: {
            firmwareVersions: [
              { profiles: { EU868: { id: 'eu' } } },
              { version: 'x'.repeat(129), profiles: { EU868: { id: 'eu' } } },
              'text',
              { version: '2', profiles: { EU868: { id: 'eu' }, Atlantis: { id: 'eu' }, US915: 'text', AU915: {} } },
              { version: '3', profiles: null },
            ],
          },
        },
      }),
    );
    expect(names).toEqual(['lamp/2/EU868']);
    expect(reasons).toEqual(
      [
        'has a firmware version whose name is missing or empty; it is not imported',
        'has a firmware version whose name is longer than 128 characters; it is not imported',
        'has an item of `firmwareVersions` without fields; it is not imported',
        'has the region "Atlantis", which is unknown; its profiles are not imported',
        'has no profile for US915 in firmware "2"; it is not imported',
        'has a row without the id of its profile; therefore not imported: 1 profile of the model "lamp"',
      ].map((reason) => `vendor/acre/lamp.yaml: ${reason}`),
    );
  });
});

describe('an unexpected shape', () => {
  const eu = { EU868: { id: 'eu' } };
  it.each([
    [
      'firmware versions',
      { name: 'Lamp', firmwareVersions: { version: '1', profiles: eu } },
      'lamp.yaml: has `firmwareVersions` that is not a list; no firmware is imported',
    ],
    [
      'regions',
      { firmwareVersions: [{ version: '1', profiles: ['EU868'] }] },
      'lamp.yaml: has profiles of firmware "1" that are not a table of regions; they are not imported',
    ],
    [
      'a codec',
      { firmwareVersions: [{ version: '1', profiles: { EU868: { id: 'eu', codec: ['a'] } } }] },
      'lamp.yaml: has a codec that is not a file name; therefore not imported: 1 profile of the model "lamp"',
    ],
    [
      'hardware',
      { firmwareVersions: [{ version: '1', hardwareVersions: [{ a: 1 }], profiles: eu }] },
      'lamp.yaml: has hardwareVersions of firmware "1" that are not names; they are ignored',
    ],
  ])('is reported: %s', async (_, lamp, reason) => {
    const { reasons, vendors } = await read(lampVendor({ devices: { lamp } }));
    expect(reasons[0]).toBe(`vendor/acre/${reason}`);
    expect(vendors.acre?.incompleteModels).toEqual({ all: false, ids: reason.includes('hardware') ? [] : ['lamp'] });
  });
});

describe('a broken file affects what needs it', () => {
  it('for a device without a file, a broken one, a duplicate one, and one without a profile', async () => {
    const { vendors, reasons } = await read(
      lampVendor({
        index: { endDevices: ['lamp', 'absent', 'broken', 'lamp', 'empty', 'list', 'bare', { a: 1 }, 'twice'] },
        devices: {
          broken: 'name: "\n  x: [',
          empty: '',
          list: '- a',
          bare: 'name: Bare\n',
          twice: 'name: a\nname: b\n',
        },
      }),
    );
    expect(vendors.acre?.models.map(({ id }) => id)).toEqual(['lamp']);
    expect(reasons).toEqual([
      'vendor/acre/absent.yaml: does not exist; the device "absent" is not imported',
      expect.stringMatching(
        /^vendor\/acre\/broken\.yaml: is not valid YAML: .* \(line \d, column \d+\); the device "broken" is not imported$/,
      ),
      'vendor/acre/index.yaml: lists the device "lamp" more than once; the first is imported',
      'vendor/acre/empty.yaml: is empty; the device "empty" is not imported',
      'vendor/acre/list.yaml: contains no fields; the device "list" is not imported',
      'vendor/acre/bare.yaml: has no usable profile; the model "bare" is not imported',
      'vendor/acre/index.yaml: lists a device whose name is missing or empty; it is not imported',
      'vendor/acre/twice.yaml: has the key "name" twice in one object (line 2, column 1); the device "twice" is not imported',
    ]);
  });

  it('for a vendor without an index, or with an index that lists nothing', async () => {
    for (const [index, reasons] of [
      [
        '[',
        [expect.stringMatching(/^vendor\/acre\/index\.yaml: is not valid YAML: .*; no model of acre is imported$/)],
      ],
      [
        'endDevices: lamp',
        ['vendor/acre/index.yaml: has `endDevices` that is not a list of names; no model is imported'],
      ],
      ['endDevices:\n', []],
    ] as const) {
      expect(await read({ index })).toMatchObject({ names: [], reasons });
    }
  });

  it('for a profile, which is reported once, with everything that it affects', async () => {
    const regions = { 'EU863-870': { id: 'absent' }, 'US902-928': { id: 'absent' }, AS923: { id: 'eu' } };
    const { names, reasons } = await read(
      lampVendor({
        devices: { lamp: device(regions), bulb: device({ ...regions, AS923: { id: 'old' } }) },
        profiles: { old: yamlProfile({ macVersion: '0.9' }) },
      }),
    );
    expect(names).toEqual(['lamp/1.0/AS923']);
    expect(reasons).toEqual([
      'vendor/acre/absent.yaml: does not exist; therefore not imported: 4 profiles of the models "lamp", "bulb"',
      'vendor/acre/old.yaml: has the LoRaWAN version "0.9", which is not valid; use one of 1.0.0, 1.0.1, 1.0.2, 1.0.3, 1.0.4, 1.1.0; therefore not imported: 1 profile of the model "bulb"',
      'vendor/acre/bulb.yaml: has no usable profile; the model "bulb" is not imported',
    ]);
  });

  it.each([
    ['that does not exist', undefined, {}, 'codec.yaml: does not exist'],
    ['that is not YAML', '{', {}, 'codec.yaml: is not valid YAML: '],
    [
      'that names no script',
      { uplinkDecoder: null },
      {},
      'codec.yaml: names no script; set at least one of downlinkEncoder, uplinkDecoder, downlinkDecoder',
    ],
    [
      'that has a part without a file',
      { uplinkDecoder: { fileName: 'good.js' }, downlinkEncoder: {} },
      {},
      'codec.yaml: has downlinkEncoder without the fileName of its script',
    ],
    [
      'whose encoder does not exist',
      { uplinkDecoder: { fileName: 'good.js' }, downlinkEncoder: { fileName: 'absent.js' } },
      {},
      'absent.js: does not exist',
    ],
    [
      'whose script is empty',
      { uplinkDecoder: { fileName: 'empty.js' } },
      { 'empty.js': ' \n' },
      'empty.js: is an empty script',
    ],
    [
      'whose script is 5 MB',
      { uplinkDecoder: { fileName: 'huge.js' } },
      { 'huge.js': Buffer.alloc(5 * 1024 * 1024, '/') },
      'huge.js: has 5 MiB; the maximum is 256 KiB',
    ],
    [
      'whose script is not UTF-8',
      { uplinkDecoder: { fileName: 'latin.js' } },
      { 'latin.js': Buffer.from('// caf\xe9', 'latin1') },
      'latin.js: is not valid UTF-8; save it as UTF-8',
    ],
  ])('for a codec %s, which affects the profiles that need it', async (_, codec, files, reason) => {
    const { names, reasons, vendors } = await read(
      lampVendor({
        devices: { lamp: device({ 'EU863-870': { id: 'eu', codec: 'codec' }, AS923: { id: 'eu' } }) },
        codecs: codec === undefined ? {} : { codec },
        files: { 'good.js': DECODER, ...files },
      }),
    );
    expect(names).toEqual(['lamp/1.0/AS923']);
    expect(vendors.acre?.codecs).toEqual([]);
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toContain(`vendor/acre/${reason}`);
    expect(reasons[0]).toMatch(/; therefore not imported: 1 profile of the model "lamp"$/);
  });

  it('for examples, which affect only themselves', async () => {
    const codec =
      'uplinkDecoder:\n  fileName: lamp.js\n  examples: text\ndownlinkEncoder:\n  fileName: lamp.js\n  examples: [{input: {bytes: [0x0a, 0o7, 1e1, .inf], when: 2020-01-01, on: yes, none: ~}}]\n';
    const { vendors, reasons } = await read(
      lampVendor({
        devices: { lamp: device({ 'EU863-870': { id: 'eu', codec: 'lamp-codec' } }) },
        codecs: { 'lamp-codec': codec },
        files: { 'lamp.js': DECODER },
      }),
    );
    expect(reasons).toEqual([
      'vendor/acre/lamp-codec.yaml: has unusable examples under uplinkDecoder: it does not contain a list of examples',
    ]);
    expect(vendors.acre?.codecs[0]?.examples).toEqual([
      {
        role: 'encoder',
        file: 'vendor/acre/lamp-codec.yaml',
        items: [{ input: { bytes: [10, 7, 10, null], when: '2020-01-01', on: 'yes', none: null } }],
      },
    ]);
  });
});

describe('files of other vendors and folders', () => {
  it('are read for a profile of another vendor from its folder, and for the codec from its own', async () => {
    const others = {
      'module-maker': {
        profiles: { eu: yamlProfile({ supportsClassC: true }) },
        codecs: {
          theirs: { uplinkDecoder: { fileName: 'theirs.js' } },
          both: { uplinkDecoder: { fileName: 'theirs.js' } },
        },
        files: { 'theirs.js': VALVE_CODEC },
      },
    };
    const { vendors, reasons } = await read(
      {
        devices: {
          lamp: device({
            EU868: foreignProfile('both'),
            US915: foreignProfile('theirs'),
            AU915: { id: '../module-maker/eu.yaml', codec: './both' },
            AS923: foreignProfile('../module-maker/both'),
          }),
        },
        codecs: { both: { uplinkDecoder: { fileName: 'own.js' } } },
        files: { 'own.js': ENCODER },
      },
      others,
    );
    expect(reasons).toEqual([]);
    expect(
      vendors.acre?.models[0]?.profiles.map(({ region, codec, supportsClassC }) => [region, codec, supportsClassC]),
    ).toEqual([
      ['EU868', 'both', true],
      ['US915', 'module-maker-theirs', true],
      ['AU915', 'both', true],
      ['AS923', 'module-maker-both', true],
    ]);
    expect(vendors.acre?.codecs.map(({ name, scripts }) => [name, scripts.decoder?.name])).toEqual([
      ['both', 'own.js'],
      ['module-maker-theirs', 'theirs.js'],
      ['module-maker-both', 'theirs.js'],
    ]);
  });

  it('get two names for two codecs whose names would be equal', async () => {
    const { vendors, reasons } = await read(
      lampVendor({
        devices: { lamp: device({ EU868: { id: 'eu', codec: 'a-b' }, AS923: { id: 'eu', codec: 'a/b' } }) },
        codecs: {
          'a-b': { uplinkDecoder: { fileName: 'one.js' } },
          'a/b': { uplinkDecoder: { fileName: '../two.js' } },
        },
        files: { 'one.js': DECODER, 'two.js': ENCODER },
      }),
    );
    expect([reasons, vendors.acre?.codecs.map(({ name, scripts }) => [name, scripts.decoder?.text])]).toEqual([
      [],
      [
        ['a-b', DECODER],
        ['a-b-2', ENCODER],
      ],
    ]);
  });
});

it('count as one device per file, read once, even if it is listed by many names', async () => {
  const names = ['lamp', ...Array.from({ length: 50 }, (_, at) => `q${at}/../lamp`)];
  const { vendors, reasons } = await read(lampVendor({ index: { endDevices: names } }));
  expect(vendors.acre?.models.map(({ id }) => id)).toEqual(['lamp']);
  expect(reasons).toEqual([
    'vendor/acre/index.yaml: lists the file of the device "lamp" more than once; the first is imported',
  ]);
});

const getIncompleteModels = async (vendor: LorawanDevicesVendor): Promise<unknown> =>
  (await read(vendor)).vendors.acre?.incompleteModels;

it('are reported for models and vendors that could not be read completely', async () => {
  expect(await getIncompleteModels(lampVendor())).toEqual({ all: false, ids: [] });
  expect(await getIncompleteModels({ index: '[' })).toEqual({ all: true, ids: [] });
  const broken = lampVendor({
    devices: {
      torn: '{',
      bulb: device({ EU868: { id: 'eu' }, AS923: { id: 'absent' } }),
      odd: device({ EU868: { id: 'eu' }, Atlantis: { id: 'eu' } }),
    },
  });
  expect(await getIncompleteModels(broken)).toEqual({ all: false, ids: ['torn', 'bulb', 'odd'] });
});

it('define how often the device sends and is polled, if the profile says so', async () => {
  const { vendors, reasons } = await read(
    lampVendor({
      profiles: { eu: yamlProfile({ uplinkInterval: 600, deviceStatusReqInterval: 2, flushQueueOnActivate: false }) },
    }),
  );
  expect([reasons, vendors.acre?.models[0]?.profiles[0]]).toMatchObject([
    [],
    { uplinkInterval: 600, deviceStatusReqInterval: 2, flushQueueOnActivate: false },
  ]);
});

describe('YAML as written by hand', () => {
  it('has anchors, merges, comments, a BOM and its own tags', async () => {
    const lamp =
      '\uFEFF# A lamp.\n_row: &row {id: eu}\nname: !name Lamp\nfirmwareVersions:\n  - &first\n    version: "1.0"\n    profiles: &profiles\n      EU863-870: *row\n      US902-928:\n        <<: [*row, {id: other}]\n        lorawanCertified: true\n  - <<: *first\n    version: "2.0"\n';
    const { names, reasons } = await read(lampVendor({ devices: { lamp } }));
    expect([names, reasons]).toEqual([['lamp/1.0/EU868', 'lamp/1.0/US915', 'lamp/2.0/EU868', 'lamp/2.0/US915'], []]);
  });

  it('has texts without control characters, truncated to a useful length', async () => {
    const { vendors } = await read(
      lampVendor({
        devices: {
          lamp: { ...device({ EU868: { id: 'eu' } }), name: ' La\u0000mp\n\u001b[31m ', description: 'x'.repeat(5000) },
        },
      }),
    );
    expect(vendors.acre?.models[0]).toMatchObject({ name: 'La mp [31m', description: 'x'.repeat(4000) });
  });
});

it('has a hundred warnings reported, and further ones counted', async () => {
  const { warnings } = await read(
    lampVendor({ index: { endDevices: Array.from({ length: 150 }, (_, at) => `absent-${at}`) } }),
  );
  expect(warnings).toHaveLength(101);
  expect(warnings[100]).toEqual({
    file: 'vendor/acre',
    reason: 'has 50 more warnings, which are not shown; fix those above and import again',
  });
});

it('is limited to 500 profiles of a model, and 5,000 models', async () => {
  const lamp = {
    firmwareVersions: Array.from({ length: 600 }, (_, at) => ({ version: `${at}`, profiles: { EU868: { id: 'eu' } } })),
  };
  const { vendors, reasons } = await read(
    lampVendor({
      index: { endDevices: ['lamp', ...Array.from({ length: 5000 }, (_, at) => `absent-${at}`)] },
      devices: { lamp },
    }),
  );
  expect(vendors.acre?.models[0]?.profiles).toHaveLength(500);
  expect(reasons.slice(0, 2)).toEqual([
    'vendor/acre/index.yaml: lists 5001 devices; only the first 5000 are imported',
    'vendor/acre/lamp.yaml: has more than 500 profiles; only the first 500 are imported',
  ]);
});
