import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openRepository } from '../../src/profiles';
import {
  chirpStackFolder,
  exampleChirpStack,
  exampleLorawanDevices,
  lorawanDevicesFolder,
  DECODER,
  ENCODER,
} from '../support/profileFolders';
import { freshFolder, profileNames, readFolder, removeFolders } from '../support/readFolder';

afterAll(removeFolders);

describe('a checkout', () => {
  it('of lorawan-devices is detected and read without a warning', async () => {
    const { source, vendors, warnings } = await readFolder(exampleLorawanDevices(freshFolder()));
    expect({ source, warnings, ids: Object.keys(vendors) }).toEqual({
      source: 'lorawan-devices',
      warnings: [],
      ids: ['northmoor', 'tessel-works'],
    });
    expect(profileNames(vendors.northmoor)).toEqual([
      ...['1.0', '1.9', '1.10'].flatMap((version) =>
        ['EU868', 'US915', 'AS923'].map((region) => `climate-1/${version}/${region}`),
      ),
      'valve-2/2.0/EU868',
      'valve-2/2.0/US915',
    ]);
    expect(vendors['tessel-works']).toMatchObject({ name: 'Tessel Works Ltd.', otherNames: [], codecs: [] });
    expect(vendors.northmoor?.models[0]).toMatchObject({
      name: 'Climate 1',
      description: 'Temperature of a room',
      otherNames: [],
    });
    expect(vendors.northmoor?.models[0]?.profiles[8]).toEqual({
      region: 'AS923',
      macVersion: '1.0.4',
      regParamsRevision: 'RP002-1.0.3',
      deviceStatusReqInterval: 1,
      uplinkInterval: 3600,
      flushQueueOnActivate: true,
      supportsClassB: false,
      supportsClassC: false,
      supportsOtaa: true,
      firmwareVersion: '1.10',
      hardwareVersions: ['1.0', '2.0'],
      payloadCodecRuntime: 'JS',
      codec: 'climate-codec',
    });
    const [climate, valve] = vendors.northmoor?.codecs ?? [];
    expect(climate).toMatchObject({
      name: 'climate-codec',
      scripts: {
        encoder: { name: 'climate-encoder.js', text: ENCODER },
        decoder: { name: 'climate-decoder.js', text: DECODER },
        downlinkDecoder: { name: 'climate-downlink.js' },
      },
    });
    expect(climate?.examples.map(({ role, file, items }) => [role, file, items.length])).toEqual([
      ['encoder', 'vendor/northmoor/climate-codec.yaml', 1],
      ['decoder', 'vendor/northmoor/climate-codec.yaml', 3],
      ['downlinkDecoder', 'vendor/northmoor/climate-codec.yaml', 1],
    ]);
    expect(valve?.scripts.encoder).toBe(valve?.scripts.decoder);
  });

  it('of chirpstack-device-profiles is detected and read without a warning', async () => {
    const { source, vendors, warnings } = await readFolder(exampleChirpStack(freshFolder()));
    expect({ source, warnings, ids: Object.keys(vendors) }).toEqual({
      source: 'chirpstack-device-profiles',
      warnings: [],
      ids: ['harrowgate', 'northmoor'],
    });
    expect([...profileNames(vendors.harrowgate), ...profileNames(vendors.northmoor)]).toEqual([
      'level-3/3.2.1/US915',
      'level-3/3.10.0/US915',
      'beacon-1/1.0/EU868',
      'tag-5/1.0/EU868',
      'valve-9/1.0/EU868',
      'valve-9/1.1/EU868',
      'valve-9/1.1/AS923',
    ]);
    expect(vendors.northmoor).toMatchObject({ name: 'Northmoor Instruments', otherNames: ['uuid-of-northmoor'] });
    expect(vendors.northmoor?.models[0]).toMatchObject({
      name: 'Valve 9',
      otherNames: ['5a1f0a52-52c7-4f0e-9d0a-3f6f4f8f0c01'],
    });
    expect(vendors.harrowgate?.models[1]?.profiles[0]).toMatchObject({
      macVersion: '1.1.0',
      uplinkInterval: 600,
      deviceStatusReqInterval: 4,
      flushQueueOnActivate: false,
      payloadCodecRuntime: 'CAYENNE_LPP',
      codec: undefined,
    });
    expect(vendors.northmoor?.codecs).toMatchObject([{ name: 'valve-9', scripts: { downlinkDecoder: undefined } }]);
    expect(vendors.northmoor?.codecs[0]?.examples).toMatchObject([
      {
        role: 'decoder',
        file: 'vendors/northmoor/codecs/test_decode_valve-9.json',
        items: [{ input: { bytes: [1, 12] } }],
      },
      { role: 'encoder', file: 'vendors/northmoor/codecs/test_encode_valve-9.json', items: [{}, {}] },
    ]);
  });

  it.each([
    ['vendor', exampleLorawanDevices, 'northmoor/index.yaml'],
    ['vendors', exampleChirpStack, 'northmoor/vendor.toml'],
  ])('may be given by its folder %s, or by a link', async (folder, createCheckout, broken) => {
    const checkout = createCheckout(freshFolder());
    const whole = await readFolder(checkout);
    const link = join(freshFolder(), 'link');
    symlinkSync(join(checkout, folder), link);
    for (const given of [join(checkout, folder), link])
      expect((await readFolder(given)).vendors).toEqual(
        JSON.parse(JSON.stringify(whole.vendors).replaceAll(`"file":"${folder}/`, '"file":"')),
      );
    symlinkSync(checkout, join(freshFolder(), 'checkout'));
    expect(await readFolder(checkout)).toEqual(whole);
    writeFileSync(join(checkout, folder, broken), 'a: [');
    expect((await readFolder(link)).warnings[0]?.file).toBe(broken);
  });

  it('of both is read as the first, with a warning', async () => {
    const { source, warnings } = await readFolder(exampleChirpStack(exampleLorawanDevices(freshFolder())));
    expect(source).toBe('lorawan-devices');
    expect(warnings).toEqual([
      { file: 'vendors', reason: expect.stringContaining('use a separate folder for each repository') as string },
    ]);
  });

  it('that is not valid is rejected', () => {
    const folder = freshFolder();
    writeFileSync(join(folder, 'vendors'), 'a file');
    mkdirSync(join(folder, 'vendor'));
    for (const given of [
      folder,
      join(folder, 'vendors'),
      join(folder, 'vendor'),
      join(folder, 'absent'),
      join(folder, 'vendors', 'below'),
      '\0',
    ]) {
      expect(() => openRepository(given)).toThrow(
        expect.objectContaining({
          kind: 'invalid_argument',
          reason: 'not_a_profile_repository',
          message: expect.stringContaining('specify the folder of a checkout') as string,
        }),
      );
    }
  });

  it('returns nothing for a missing vendor', async () => {
    for (const createCheckout of [exampleLorawanDevices, exampleChirpStack])
      expect(await openRepository(createCheckout(freshFolder())).readVendor('nobody')).toMatchObject({
        id: 'nobody',
        models: [],
        warnings: [{ reason: 'has no vendor "nobody"' }],
      });
  });

  it('is read in the same way a second time, from a copy', async () => {
    for (const createCheckout of [exampleLorawanDevices, exampleChirpStack]) {
      const [checkout, copy] = [createCheckout(freshFolder()), freshFolder()];
      cpSync(checkout, copy, { recursive: true });
      const first = await readFolder(checkout);
      rmSync(checkout, { recursive: true });
      expect(JSON.stringify(await readFolder(copy))).toBe(JSON.stringify(first));
    }
  });
});

describe('a cancellation', () => {
  it.each([
    ['lorawan-devices', exampleLorawanDevices],
    ['chirpstack-device-profiles', exampleChirpStack],
  ])('is noticed while a vendor of %s is read', async (_, createCheckout) => {
    const repository = openRepository(createCheckout(freshFolder()));
    const stop = new AbortController();
    setImmediate(() => stop.abort(new Error('enough')));
    await expect(repository.readVendor('northmoor', stop.signal)).rejects.toThrow('enough');
    expect((await repository.readVendor('northmoor', new AbortController().signal)).models.length).toBeGreaterThan(0);
  });
});

describe('the list of vendors', () => {
  it('omits the examples of the repositories', () => {
    const yaml = lorawanDevicesFolder(freshFolder(), { example: {}, northmoor: {} });
    const toml = chirpStackFolder(freshFolder(), { 'example-vendor': {}, northmoor: {}, '.hidden': {} });
    expect(
      [openRepository(yaml), openRepository(toml)].map(({ vendorIds, warnings }) => [vendorIds, warnings]),
    ).toEqual([
      [['northmoor'], []],
      [['northmoor'], []],
    ]);
  });

  it('counts vendors without a folder in one warning, and reports folders that it does not list', () => {
    const folder = lorawanDevicesFolder(
      freshFolder(),
      { northmoor: {}, unlisted: {} },
      {
        vendors: [
          ...Array.from({ length: 7 }, (_, at) => ({ id: `paper-${at}`, name: 'Paper' })),
          { id: 'northmoor' },
          { id: 'northmoor' },
          { name: 'Nameless' },
          'text',
          { id: 'a'.repeat(129) },
        ],
      },
    );
    const { vendorIds, warnings } = openRepository(folder);
    expect(vendorIds).toEqual(['northmoor']);
    expect(warnings).toEqual(
      [
        'lists the vendor "northmoor" more than once; the first is imported',
        'lists a vendor whose id is missing or empty; it is not imported',
        'lists a vendor whose id is longer than 128 characters; it is not imported',
        'lists vendors without a folder, whose devices cannot be imported: "paper-0", "paper-1", "paper-2", "paper-3", "paper-4" and 2 more',
        'does not list the vendor folders "unlisted"; they are not imported',
      ].map((reason) => ({ file: 'vendor/index.yaml', reason })),
    );
  });

  it.each([
    ['vendors: [', 'is not valid YAML: '],
    ['', 'is empty; nothing is imported'],
    ['- a', 'contains no fields; nothing is imported'],
    ['vendors: text', 'lists no vendors; nothing is imported'],
  ])('is invalid with the content %j', (text, reason) => {
    const { vendorIds, warnings, incompleteVendors } = openRepository(
      lorawanDevicesFolder(freshFolder(), { northmoor: {} }, text),
    );
    expect(incompleteVendors).toEqual({ all: true, ids: [] });
    expect([vendorIds, warnings[0]]).toEqual([
      [],
      { file: 'vendor/index.yaml', reason: expect.stringContaining(reason) as string },
    ]);
  });

  it('finds vendors by their IDs, and by their folders', () => {
    const [yaml, toml] = [
      lorawanDevicesFolder(freshFolder(), { 'Tall  Trees': {} }),
      chirpStackFolder(freshFolder(), { 'Tall  Trees': {} }),
    ];
    expect(
      [yaml, toml].map((folder) =>
        ['Tall-Trees', 'Tall  Trees', 'tall'].map((name) => openRepository(folder).findVendor(name)),
      ),
    ).toEqual([
      ['Tall-Trees', 'Tall-Trees', undefined],
      ['Tall-Trees', 'Tall-Trees', undefined],
    ]);
  });

  it('creates IDs from names that are not valid in an ID', async () => {
    const { vendors } = await readFolder(
      chirpStackFolder(freshFolder(), {
        'Tall Trees  Ltd': {
          devices: { 'reader  one': { device: { firmware: [{ version: '1.0 / beta', profiles: ['EU  868'] }] } } },
          profiles: {
            'EU  868': {
              profile: { region: 'EU868', mac_version: '1.0.3', reg_params_revision: 'A', supports_otaa: true },
            },
          },
        },
      }),
    );
    expect(profileNames(vendors['Tall-Trees-Ltd'])).toEqual(['reader-one/1.0-beta/EU868']);
  });
});
