import {
  chirpStackFolder,
  DECODER,
  OLD_DECODER,
  tomlProfile,
  VALVE_CODEC,
  type ChirpStackVendor,
} from '../support/profileFolders';
import { freshFolder, profileNames, readFolder, removeFolders } from '../support/readFolder';

afterAll(removeFolders);

/** Creates a vendor whose only device has one firmware version, in the region EU868. */
function lampVendor(given: ChirpStackVendor = {}): ChirpStackVendor {
  return {
    ...given,
    devices: { lamp: device(['EU868.toml']), ...given.devices },
    profiles: { EU868: tomlProfile('EU868'), ...given.profiles },
  };
}

function device(profiles: unknown, firmware: object = {}): object {
  return {
    device: {
      id: 'uuid-of-lamp',
      name: 'Lamp',
      description: 'Is bright',
      firmware: [{ version: '1.0', profiles, ...firmware }],
    },
  };
}

/** Reads a repository with this vendor, called `acre`. */
async function read(
  vendor: ChirpStackVendor,
): Promise<Awaited<ReturnType<typeof readFolder>> & { readonly names: string[]; readonly reasons: string[] }> {
  const folder = await readFolder(chirpStackFolder(freshFolder(), { acre: vendor }));
  return {
    ...folder,
    names: profileNames(folder.vendors.acre),
    reasons: folder.warnings.map(({ file, reason }) => `${file}: ${reason}`),
  };
}

const listing = (devices: object): ChirpStackVendor =>
  lampVendor({ vendor: { vendor: { name: 'Acre', ...devices } }, devices: { bulb: device(['EU868']) } });

const withCodec = (firmware: object, codecs: NonNullable<ChirpStackVendor['codecs']>): ReturnType<typeof read> =>
  read(lampVendor({ devices: { lamp: device(['EU868'], firmware) }, codecs }));

describe('devices', () => {
  it('are read from the list, with or without their extension, and other files are reported', async () => {
    const { vendors, reasons } = await read(
      lampVendor({
        vendor: { vendor: { name: 'Acre', devices: ['lamp', 'bulb.toml', 'absent.toml', 'lamp.toml'] } },
        devices: { bulb: device(['EU868']), stray: device(['EU868']) },
      }),
    );
    expect(vendors.acre).toMatchObject({
      name: 'Acre',
      otherNames: [],
      models: [{ id: 'lamp', otherNames: ['uuid-of-lamp'] }, { id: 'bulb' }],
    });
    expect(reasons).toEqual([
      'vendors/acre/vendor.toml: does not list all files in devices/; not imported: "stray"',
      'vendors/acre/devices/absent.toml: does not exist; the device "absent" is not imported',
      'vendors/acre/vendor.toml: lists the device "lamp" more than once; the first is imported',
    ]);
  });

  it('are all files of the folder without a list, and none with an empty list', async () => {
    expect(await read(listing({}))).toMatchObject({ names: ['bulb/1.0/EU868', 'lamp/1.0/EU868'], reasons: [] });
    expect(await read(listing({ devices: 'lamp' }))).toMatchObject({
      names: ['bulb/1.0/EU868', 'lamp/1.0/EU868'],
      reasons: [
        'vendors/acre/vendor.toml: has `devices` that is not a list of files; all files in devices/ are imported',
      ],
    });
    expect((await read(listing({ devices: [] }))).names).toEqual([]);
  });

  it.each([
    ['a = ', 'devices/broken.toml: is not valid TOML: '],
    ['', 'devices/broken.toml: has no table [device]; '],
    ['device = 5', 'devices/broken.toml: has no table [device]; '],
    ['[device]\nname = "a"', 'devices/broken.toml: has no usable profile; '],
    [
      '[[device.firmware]]\nprofiles = ["EU868"]',
      'devices/broken.toml: has a firmware version whose name is missing or empty; ',
    ],
  ])('are skipped if their file is %j', async (broken, reason) => {
    const { names, reasons } = await read(lampVendor({ devices: { broken } }));
    expect([names, reasons[0]]).toEqual([['lamp/1.0/EU868'], expect.stringContaining(`vendors/acre/${reason}`)]);
  });

  it.each([
    ['[vendor', /vendor\.toml: is not valid TOML: .* \(line 1, column \d+\); no model of acre is imported$/],
    ['[other]', /vendor\.toml: has unknown keys, which are ignored: "other"$/],
  ])('are skipped with their vendor if its file is %j', async (vendor, reason) => {
    expect(await read(lampVendor({ vendor }))).toMatchObject({
      names: [],
      reasons: [
        expect.stringMatching(reason),
        ...(vendor === '[other]'
          ? ['vendors/acre/vendor.toml: has no table [vendor]; no model of acre is imported']
          : []),
      ],
    });
  });
});

describe('firmware versions', () => {
  it('that are numbers are kept as they were written', async () => {
    const lamp =
      '[device]\nname = 5\n\n[[device.firmware]]\nversion = 1.10 # the newest\nprofiles = ["EU868"]\n[[device.firmware]]\nversion = "1.9"\nprofiles = ["EU868"]\n[[device.firmware]]\n  version=2.0\nprofiles = ["EU868"]\n';
    expect(await read(lampVendor({ devices: { lamp } }))).toMatchObject({
      names: ['lamp/1.10/EU868', 'lamp/1.9/EU868', 'lamp/2.0/EU868'],
      reasons: [],
      vendors: { acre: { models: [{ name: '5' }] } },
    });
    expect((await read(lampVendor({ devices: { lamp: `${lamp}\n[device.metadata]\nversion = 7\n` } }))).names).toEqual([
      'lamp/1.1/EU868',
      'lamp/1.9/EU868',
      'lamp/2/EU868',
    ]);
  });

  it('that are duplicate, or two profiles of a region, are reported, and the first is used', async () => {
    const { names, reasons, vendors } = await read(
      lampVendor({
        devices: { lamp: device(['EU868', 'EU868-C', 'KR920']) },
        profiles: { 'EU868-C': tomlProfile('EU_863_870', { supports_class_c: true }), KR920: tomlProfile('kr920') },
      }),
    );
    expect([names, reasons]).toEqual([
      ['lamp/1.0/EU868', 'lamp/1.0/KR920'],
      ['vendors/acre/devices/lamp.toml: has firmware "1.0" for EU868 more than once; the first is imported'],
    ]);
    expect(vendors.acre?.models[0]?.profiles[0]?.supportsClassC).toBe(false);
  });
});

describe('profiles', () => {
  it('that are broken are reported once, with everything that they affect', async () => {
    const profiles = {
      torn: '[profile',
      empty: '[profile]',
      odd: tomlProfile('ZZ999'),
      old: tomlProfile('EU868', { mac_version: '2.0' }),
    };
    const { names, reasons } = await read(
      lampVendor({
        devices: {
          lamp: device(['EU868', 'absent', 'torn', 'empty.toml', 'odd', 'old', 5, {}]),
          bulb: device(['absent']),
        },
        profiles,
      }),
    );
    expect(names).toEqual(['lamp/1.0/EU868']);
    expect(reasons).toEqual([
      'vendors/acre/profiles/absent.toml: does not exist; therefore not imported: 2 profiles of the models "lamp", "bulb"',
      expect.stringMatching(
        /^vendors\/acre\/profiles\/torn\.toml: is not valid TOML: .* \(line 1, column \d+\); therefore not imported: 1 profile of the model "lamp"$/,
      ),
      'vendors/acre/profiles/empty.toml: has no region; therefore not imported: 1 profile of the model "lamp"',
      'vendors/acre/profiles/odd.toml: has the region "ZZ999", which is unknown; therefore not imported: 1 profile of the model "lamp"',
      expect.stringMatching(/profiles\/old\.toml: has the LoRaWAN version "2\.0", which is not valid; /),
      'vendors/acre/profiles/5.toml: does not exist; therefore not imported: 1 profile of the model "lamp"',
      'vendors/acre/devices/lamp.toml: lists a profile without a name; therefore not imported: 1 profile of the model "lamp"',
      'vendors/acre/devices/bulb.toml: has no usable profile; the model "bulb" is not imported',
    ]);
  });

  it('report unknown values', async () => {
    const lamp = {
      device: {
        name: 'Lamp',
        colour: 'red',
        metadata: { anything: { goes: 1 } },
        firmware: [
          { version: '1.0', profiles: ['EU868'], flash: 1 },
          { version: '1.1', profiles: ['EU868'], flash: 2 },
        ],
      },
      extra: 1,
    };
    const { reasons } = await read(
      lampVendor({
        vendor: { vendor: { name: 'Acre', devices: ['lamp'], constructor: 1 } },
        devices: { lamp },
        profiles: {
          EU868: {
            profile: {
              region: 'EU868',
              mac_version: '1.0.3',
              reg_params_revision: 'A',
              supports_otaa: true,
              abp: { rx3: 1 },
              toString: 1,
              uplink_interval: -5,
            },
          },
        },
      }),
    );
    expect(reasons).toEqual([
      'vendors/acre/vendor.toml: has unknown keys, which are ignored: "vendor.constructor"',
      'vendors/acre/devices/lamp.toml: has unknown keys, which are ignored: "extra", "device.colour", "device.firmware.flash"',
      'vendors/acre/profiles/EU868.toml: has unknown keys, which are ignored: "profile.toString", "profile.abp.rx3"',
      'vendors/acre/profiles/EU868.toml: has uplinkInterval that is not a whole number from 1 to 2147483647; 3600 is assumed',
    ]);
  });
});

describe('an unexpected shape is reported', () => {
  it.each([
    [
      'firmware',
      { device: { firmware: { version: '1', profiles: ['EU868'] } } },
      'has `firmware` that is not a list; write [[device.firmware]] before each firmware',
    ],
    [
      'an item of it',
      { device: { firmware: ['1'] } },
      'has items of `firmware` that are not tables; they are not imported',
    ],
    [
      'profiles',
      { device: { firmware: [{ version: '1', profiles: 'EU868' }] } },
      'has profiles of firmware "1" that are not a list of files; they are not imported',
    ],
  ])('for %s', async (_, lamp, reason) => {
    const { reasons, vendors } = await read(lampVendor({ devices: { lamp } }));
    expect([reasons[0], vendors.acre?.incompleteModels]).toEqual([
      `vendors/acre/devices/lamp.toml: ${reason}`,
      { all: false, ids: ['lamp'] },
    ]);
  });

  it('for a device, and a LoRaWAN version that is a number', async () => {
    expect((await read(lampVendor({ vendor: { vendor: { name: 'Acre', devices: ['lamp', {}] } } }))).reasons).toEqual([
      'vendors/acre/vendor.toml: lists devices that are not file names; they are not imported',
    ]);
    expect(
      (await read(lampVendor({ profiles: { EU868: '[profile]\nregion = "EU868"\nmac_version = 1.0\n' } }))).reasons[0],
    ).toMatch(
      /^vendors\/acre\/profiles\/EU868\.toml: has the LoRaWAN version as a number; put it in quotes and use one of /,
    );
  });
});

describe('codecs', () => {
  it('are named with or without their extension, and have the abilities that they define', async () => {
    for (const codec of ['lamp', 'lamp.js']) {
      const { vendors, reasons } = await withCodec({ codec }, { 'lamp.js': OLD_DECODER, 'other.js': VALVE_CODEC });
      expect(reasons).toEqual([]);
      expect(vendors.acre?.models[0]?.profiles[0]).toMatchObject({ payloadCodecRuntime: 'JS', codec: 'lamp' });
      expect(vendors.acre?.codecs).toEqual([
        {
          name: 'lamp',
          scripts: { encoder: undefined, decoder: { name: 'lamp.js', text: OLD_DECODER }, downlinkDecoder: undefined },
          examples: [],
        },
      ]);
    }
    expect(await withCodec({ codec: '' }, {})).toMatchObject({
      reasons: [],
      vendors: { acre: { models: [{ profiles: [{ payloadCodecRuntime: 'NONE', codec: undefined }] }] } },
    });
  });

  it.each([
    ['the firmware by its codec', 'cayenne_lpp', {}],
    ['the firmware by its runtime', undefined, { payload_codec_runtime: 'CAYENNE_LPP' }],
  ])('belong to the network server where %s says so', async (_, codec, firmware) => {
    const { vendors, reasons } = await withCodec({ ...(codec ? { codec } : {}), ...firmware }, {});
    expect([reasons, vendors.acre?.models[0]?.profiles[0]]).toMatchObject([
      [],
      { payloadCodecRuntime: 'CAYENNE_LPP', codec: undefined },
    ]);
  });

  it('belong to the network server where the profile says so', async () => {
    const { vendors } = await read(
      lampVendor({ profiles: { EU868: tomlProfile('EU868', { payload_codec_runtime: 'CAYENNE_LPP' }) } }),
    );
    expect(vendors.acre?.models[0]?.profiles[0]).toMatchObject({ payloadCodecRuntime: 'CAYENNE_LPP' });
  });

  it.each([
    ['does not exist', undefined, 'does not exist'],
    ['is empty', '', 'is an empty script'],
    [
      'defines nothing',
      '// function decodeUplink() {}\nvar text = "function decodeUplink() {}";',
      'defines neither encodeDownlink nor decodeUplink, nor an older name of them',
    ],
    ['is 5 MB', Buffer.alloc(5_000_000, ' '), 'has 4.8 MiB; the maximum is 256 KiB'],
  ])('affect the profiles that need one that %s', async (_, script, reason) => {
    const { names, reasons } = await withCodec({ codec: 'lamp' }, script === undefined ? {} : { 'lamp.js': script });
    expect(names).toEqual([]);
    expect(reasons[0]).toBe(
      `vendors/acre/codecs/lamp.js: ${reason}; therefore not imported: 1 profile of the model "lamp"`,
    );
  });

  it('have examples in several common forms, and unreadable examples affect only themselves', async () => {
    const decode = `[{ name: 'one', input: { bytes: [0xFF, .5, +1,], /* a comment */ fPort: 1 }, expected: { data: { a: NaN, "__proto__": { b: 1 }, c: 'it\\'s' } } },]`;
    const { vendors, reasons } = await withCodec(
      { codec: 'lamp' },
      { 'lamp.js': DECODER, 'test_decode_lamp.json': decode, 'test_encode_lamp.json': '[{' },
    );
    expect(reasons).toEqual([
      expect.stringMatching(
        /^vendors\/acre\/codecs\/test_encode_lamp\.json: is neither JSON nor JSON5: .*; these examples are not used$/,
      ),
    ]);
    const [examples] = vendors.acre?.codecs[0]?.examples ?? [];
    expect(JSON.stringify(examples?.items)).toBe(
      `[{"name":"one","input":{"bytes":[255,0.5,1],"fPort":1},"expected":{"data":{"a":null,"__proto__":{"b":1},"c":"it's"}}}]`,
    );
  });

  it.each([
    ['{}', 'does not contain a list of examples; these examples are not used'],
    ['['.repeat(100) + ']'.repeat(100), 'is nested deeper than 64 levels; these examples are not used'],
    [Buffer.from([0x5b, 0xff, 0x5d]), 'is not valid UTF-8; save it as UTF-8; these examples are not used'],
    [
      [{ name: 'of an encoder that is not there' }],
      'has examples for functions that lamp.js does not define; they are not used',
    ],
  ])('have unusable examples: %j', async (examples, reason) => {
    const { names, vendors, reasons } = await withCodec(
      { codec: 'lamp' },
      { 'lamp.js': DECODER, 'test_encode_lamp.json': examples },
    );
    expect([names, vendors.acre?.codecs[0]?.examples, reasons]).toEqual([
      ['lamp/1.0/EU868'],
      [],
      [`vendors/acre/codecs/test_encode_lamp.json: ${reason}`],
    ]);
  });
});
