import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { stringify as toml } from 'smol-toml';
import { stringify as yaml } from 'yaml';

/**
 * The content of a file: a text or bytes, which are written unchanged, or an object, which is written in the format of
 * its layout.
 */
export type Content = string | Uint8Array | object;

/** A vendor of a checkout of lorawan-devices. The keys are names of files without their extension. */
export interface LorawanDevicesVendor {
  readonly name?: string;
  /** Replaces the index that lists all of `devices`. */
  readonly index?: Content;
  readonly devices?: Readonly<Record<string, Content>>;
  readonly profiles?: Readonly<Record<string, Content>>;
  readonly codecs?: Readonly<Record<string, Content>>;
  /** Additional files by their complete names, for example scripts. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
}

/** A vendor of a checkout of chirpstack-device-profiles. The keys are names of files without their extension. */
export interface ChirpStackVendor {
  readonly name?: string;
  /** Replaces the `[vendor]` that lists all of `devices`. */
  readonly vendor?: Content;
  readonly devices?: Readonly<Record<string, Content>>;
  readonly profiles?: Readonly<Record<string, Content>>;
  /** Files by their complete names: `lamp.js`, `test_decode_lamp.json`. An object is written as JSON. */
  readonly codecs?: Readonly<Record<string, Content>>;
}

/** Creates a checkout of the YAML layout, or adds vendors to one. Returns the folder. */
export function lorawanDevicesFolder(
  dir: string,
  vendors: Readonly<Record<string, LorawanDevicesVendor>>,
  index?: Content,
): string {
  const listed = Object.entries(vendors).map(([id, vendor], at) => ({ id, name: vendor.name ?? id, vendorID: at + 1 }));
  write(
    dir,
    'vendor/index.yaml',
    index ?? { vendors: [{ id: 'example', name: 'Example', vendorID: 0, draft: true }, ...listed] },
    yaml,
  );
  for (const [id, vendor] of Object.entries(vendors)) {
    const into = `vendor/${id}`;
    write(dir, `${into}/index.yaml`, vendor.index ?? { endDevices: Object.keys(vendor.devices ?? {}) }, yaml);
    for (const [name, content] of Object.entries({ ...vendor.devices, ...vendor.profiles, ...vendor.codecs }))
      write(dir, `${into}/${name}.yaml`, content, yaml);
    for (const [name, content] of Object.entries(vendor.files ?? {})) write(dir, `${into}/${name}`, content, yaml);
  }
  return dir;
}

/** Creates a checkout of the TOML layout, or adds vendors to one. Returns the folder. */
export function chirpStackFolder(dir: string, vendors: Readonly<Record<string, ChirpStackVendor>>): string {
  mkdirSync(join(dir, 'vendors'), { recursive: true });
  for (const [id, vendor] of Object.entries(vendors)) {
    const into = `vendors/${id}`;
    const devices = Object.keys(vendor.devices ?? {}).map((name) => `${name}.toml`);
    write(
      dir,
      `${into}/vendor.toml`,
      vendor.vendor ?? { vendor: { id: `uuid-of-${id}`, name: vendor.name ?? id, vendor_id: 1, ouis: [], devices } },
      toml,
    );
    for (const folder of ['devices', 'profiles'] as const)
      for (const [name, content] of Object.entries(vendor[folder] ?? {}))
        write(dir, `${into}/${folder}/${name}.toml`, content, toml);
    for (const [name, content] of Object.entries(vendor.codecs ?? {}))
      write(dir, `${into}/codecs/${name}`, content, (value) => JSON.stringify(value, undefined, 2));
  }
  return dir;
}

function write(dir: string, path: string, content: Content, format: (value: object) => string): void {
  const file = join(dir, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === 'string' || content instanceof Uint8Array ? content : format(content));
}

/** Creates a profile of the YAML layout. */
export function yamlProfile(overrides: object = {}): object {
  return {
    vendorProfileID: 1,
    macVersion: '1.0.3',
    regionalParametersVersion: 'RP001-1.0.3-RevA',
    supportsJoin: true,
    maxEIRP: 16,
    supports32bitFCnt: true,
    supportsClassB: false,
    supportsClassC: false,
    ...overrides,
  };
}

/** Creates a profile of the TOML layout. */
export function tomlProfile(region: string, overrides: object = {}): object {
  return {
    profile: {
      id: `uuid-of-${region}`,
      vendor_profile_id: 1,
      region,
      mac_version: '1.0.3',
      reg_params_revision: 'A',
      supports_otaa: true,
      supports_class_b: false,
      supports_class_c: false,
      max_eirp: 16,
      ...overrides,
      abp: { rx1_delay: 0, rx1_dr_offset: 0, rx2_dr: 0, rx2_freq: 0 },
      class_b: { timeout_secs: 0, ping_slot_periodicity: 0, ping_slot_dr: 0, ping_slot_freq: 0 },
      class_c: { timeout_secs: 0 },
    },
  };
}

/** Decodes `[tenths of a degree, high and low byte, signed; percent of the battery]`. */
export const DECODER = `function tenths(bytes) {
  var value = (bytes[0] << 8) | bytes[1];
  return (value > 0x7fff ? value - 0x10000 : value) / 10;
}

function decodeUplink(input) {
  if (input.bytes.length < 3) return { errors: ['three bytes were expected'] };
  return { data: { temperature: tenths(input.bytes), battery: input.bytes[2] }, warnings: input.bytes[2] < 10 ? ['battery is low'] : [] };
}
`;

/** Encodes `{interval: minutes}` on port 10. */
export const ENCODER = `function tenths(minutes) { return [minutes >> 8, minutes & 0xff]; }

function encodeDownlink(input) {
  if (typeof input.data.interval !== 'number') return { errors: ['interval is missing'] };
  return { bytes: [1].concat(tenths(input.data.interval)), fPort: 10 };
}
`;

/** Decodes what ENCODER encodes. */
export const DOWNLINK_DECODER = `function decodeDownlink(input) {
  return { data: { interval: (input.bytes[1] << 8) | input.bytes[2] } };
}
`;

/** A codec in one file that opens and closes a valve, and decodes its position. */
export const VALVE_CODEC = `// encodeDownlink and decodeUplink of the valve.
var STATES = ['closed', 'open'];
function decodeUplink(input) { return { data: { valve: STATES[input.bytes[0]], litres: input.bytes[1] } }; }
function encodeDownlink(input) { return { fPort: 2, bytes: [STATES.indexOf(input.data.valve)] }; }
`;

/** An older form, without an encoder. */
export const OLD_DECODER = `function Decode(fPort, bytes, variables) {
  return { level: bytes[0] * ((variables && variables.scale) || 1), port: fPort };
}
`;

const CLIMATE_CODEC = {
  uplinkDecoder: {
    fileName: 'climate-decoder.js',
    examples: [
      {
        description: 'Warm',
        input: { fPort: 1, bytes: [0, 215, 90] },
        output: { data: { temperature: 21.5, battery: 90 } },
      },
      {
        description: 'Below zero, battery low',
        input: { fPort: 1, bytes: [0xff, 0xce, 5] },
        output: { data: { temperature: -5, battery: 5 }, warnings: ['battery is low'] },
      },
      {
        description: 'Is wrong in the repository itself',
        input: { fPort: 1, bytes: [0, 100, 50] },
        output: { data: { temperature: 11, battery: 50 } },
      },
    ],
  },
  downlinkEncoder: {
    fileName: 'climate-encoder.js',
    examples: [
      { description: 'Every five minutes', input: { data: { interval: 5 } }, output: { bytes: [1, 0, 5], fPort: 10 } },
    ],
  },
  downlinkDecoder: {
    fileName: 'climate-downlink.js',
    examples: [
      { description: 'Every five minutes', input: { fPort: 10, bytes: [1, 0, 5] }, output: { data: { interval: 5 } } },
    ],
  },
};

/** Creates the profiles of a firmware: EU863-870, US902-928 and AS923, all with this codec. */
function threeRegions(codec: string): object {
  return {
    'EU863-870': { id: 'eu868-profile', lorawanCertified: true, codec },
    'US902-928': { id: 'us915-profile', codec },
    AS923: { id: 'as923-profile', codec },
  };
}

/**
 * Creates a valid checkout of lorawan-devices: northmoor (climate-1 with three firmware versions in three regions, a
 * codec of three files, one wrong example; valve-2 with one file for all roles) and tessel-works (counter-7 without a
 * codec, by a profile of northmoor). 13 profiles.
 */
export function exampleLorawanDevices(dir: string): string {
  return lorawanDevicesFolder(dir, {
    northmoor: {
      name: 'Northmoor Instruments',
      devices: {
        'climate-1': {
          name: 'Climate 1',
          description: 'Temperature of a room',
          hardwareVersions: [
            { version: '1.0', numeric: 1 },
            { version: '2.0', numeric: 2 },
          ],
          firmwareVersions: [
            { version: '1.0', numeric: 1, hardwareVersions: ['1.0'], profiles: threeRegions('climate-codec') },
            { version: '1.9', numeric: 2, hardwareVersions: ['1.0'], profiles: threeRegions('climate-codec') },
            { version: '1.10', numeric: 3, hardwareVersions: ['1.0', '2.0'], profiles: threeRegions('climate-codec') },
          ],
        },
        'valve-2': {
          name: 'Northmoor Instruments Valve 2',
          description: 'A valve with a water meter',
          firmwareVersions: [
            {
              version: '2.0',
              numeric: 1,
              profiles: {
                'EU863-870': { id: 'eu868-class-c-profile', codec: 'valve-codec' },
                'US902-928': { id: 'us915-profile', codec: 'valve-codec' },
              },
            },
          ],
        },
      },
      profiles: {
        'eu868-profile': yamlProfile(),
        'eu868-class-c-profile': yamlProfile({ supportsClassC: true, classCTimeout: 60 }),
        'us915-profile': yamlProfile({ macVersion: '1.0.2', regionalParametersVersion: 'RP001-1.0.2-RevB' }),
        'as923-profile': yamlProfile({ macVersion: '1.0.4', regionalParametersVersion: 'RP002-1.0.3' }),
      },
      codecs: {
        'climate-codec': CLIMATE_CODEC,
        'valve-codec': {
          uplinkDecoder: {
            fileName: 'valve.js',
            examples: [
              {
                description: 'Open',
                input: { fPort: 2, bytes: [1, 12] },
                output: { data: { valve: 'open', litres: 12 } },
              },
            ],
          },
          downlinkEncoder: {
            fileName: 'valve.js',
            examples: [
              { description: 'Open it', input: { data: { valve: 'open' } }, output: { bytes: [1], fPort: 2 } },
            ],
          },
        },
      },
      files: {
        'climate-decoder.js': DECODER,
        'climate-encoder.js': ENCODER,
        'climate-downlink.js': DOWNLINK_DECODER,
        'valve.js': VALVE_CODEC,
      },
    },
    'tessel-works': {
      name: 'Tessel Works Ltd.',
      devices: {
        'counter-7': {
          name: 'Counter 7',
          description: 'Counts pulses',
          firmwareVersions: [
            {
              version: '0.4',
              numeric: 4,
              profiles: {
                'EU863-870': { id: 'eu868-profile', vendorID: 'northmoor' },
                'AS923-2': { id: 'as923-profile', vendorID: 'northmoor' },
              },
            },
          ],
        },
      },
    },
  });
}

/**
 * Creates a valid checkout of chirpstack-device-profiles: northmoor (valve-9, two firmware versions and regions, one
 * file for all roles, one wrong example) and harrowgate (level-3 with an old decoder, beacon-1 whose payload the
 * network server decodes, tag-5 without a codec). 7 profiles.
 */
export function exampleChirpStack(dir: string): string {
  return chirpStackFolder(dir, {
    northmoor: {
      name: 'Northmoor Instruments',
      devices: {
        'valve-9': {
          device: {
            id: '5a1f0a52-52c7-4f0e-9d0a-3f6f4f8f0c01',
            name: 'Valve 9',
            description: 'A valve with a water meter',
            firmware: [
              { version: '1.0', profiles: ['EU868-1_0_3.toml'], codec: 'valve-9.js' },
              { version: '1.1', profiles: ['EU868-1_0_3.toml', 'AS923-1_0_3.toml'], codec: 'valve-9.js' },
            ],
            metadata: { product_url: 'https://northmoor.example/valve-9' },
          },
        },
      },
      profiles: {
        'EU868-1_0_3': tomlProfile('EU868', { supports_class_c: true }),
        'AS923-1_0_3': tomlProfile('AS923'),
      },
      codecs: {
        'valve-9.js': VALVE_CODEC,
        'test_decode_valve-9.json':
          "[\n  // Published like this.\n  { name: 'Open', input: { fPort: 2, bytes: [0x01, 0x0c], recvTime: '2025-05-02T20:00:00Z' }, expected: { data: { valve: 'open', litres: 12 }, errors: [], warnings: [] }, },\n]\n",
        'test_encode_valve-9.json': [
          { name: 'Open it', input: { data: { valve: 'open' } }, expected: { bytes: [1] } },
          { name: 'Is wrong in the repository itself', input: { data: { valve: 'closed' } }, expected: { bytes: [7] } },
        ],
      },
    },
    harrowgate: {
      name: 'Harrowgate Sensing',
      devices: {
        'level-3': {
          device: {
            id: '5a1f0a52-52c7-4f0e-9d0a-3f6f4f8f0c02',
            name: 'Level 3',
            description: 'Level of a tank',
            firmware: [
              { version: '3.2.1', profiles: ['US915'], codec: 'level-3' },
              { version: '3.10.0', profiles: ['US915'], codec: 'level-3' },
            ],
          },
        },
        'beacon-1': {
          device: {
            id: '5a1f0a52-52c7-4f0e-9d0a-3f6f4f8f0c03',
            name: 'Beacon 1',
            description: 'Position',
            firmware: [{ version: '1.0', profiles: ['EU868'], codec: 'CAYENNE_LPP' }],
          },
        },
        'tag-5': {
          device: {
            id: '5a1f0a52-52c7-4f0e-9d0a-3f6f4f8f0c04',
            name: 'Tag 5',
            description: '',
            firmware: [{ version: '1.0', profiles: ['EU868'] }],
          },
        },
      },
      profiles: {
        US915: tomlProfile('US915', { reg_params_revision: 'B' }),
        EU868: tomlProfile('EU868', {
          mac_version: '1.1.0',
          uplink_interval: 600,
          device_status_req_interval: 4,
          flush_queue_on_activate: false,
        }),
      },
      codecs: {
        'level-3.js': OLD_DECODER,
        'test_decode_level-3.json': [
          { name: 'Half full', input: { fPort: 4, bytes: [50] }, expected: { data: { level: 50, port: 4 } } },
        ],
      },
    },
  });
}
