import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The size of a checkout. Everything else is derived from it, the same each time. */
export interface CheckoutSize {
  readonly layout: 'lorawan-devices' | 'chirpstack-device-profiles';
  /** Each has DEVICES_PER_VENDOR devices and PROFILES_PER_VENDOR profiles. */
  readonly vendors: number;
  /** The number of the first vendor, so that two checkouts can contain different ones. */
  readonly first?: number;
  /** Another edition, in which every codec decodes differently. */
  readonly edition?: number;
  /** The factor of the size of the scripts. */
  readonly scale?: number;
}

/**
 * The numbers of firmware versions and regions of the devices of a vendor. Their products are the numbers of profiles.
 */
const SHAPES = [
  [2, 4],
  [2, 4],
  [2, 3],
  [2, 3],
  [1, 4],
  [1, 4],
  [1, 4],
] as const;

/** Of each vendor of such a checkout. */
export const DEVICES_PER_VENDOR = SHAPES.length;

/** Of each vendor of such a checkout. */
export const PROFILES_PER_VENDOR = SHAPES.reduce((sum, [versions, regions]) => sum + versions * regions, 0);

const REGIONS = [
  ['EU868', 'EU863-870'],
  ['US915', 'US902-928'],
  ['AU915', 'AU915-928'],
  ['AS923', 'AS923'],
] as const;
/** Sizes of scripts in bytes. A few are long, like tables of settings. */
const SCRIPT_BYTES = [2048, 3072, 4096, 4096, 6144, 8192, 12_288, 16_384, 24_576, 40_960];

/** Returns the ID of a vendor of such a checkout. */
export function getVendor(number: number): string {
  return `invented-${String(number).padStart(4, '0')}`;
}

/** Returns the ID of a device of such a checkout. */
export function getDevice(vendor: number, device: number): string {
  return `iv${String(vendor).padStart(4, '0')}-sensor-${device}`;
}

/** Writes a checkout of invented vendors into a folder. */
export function writeCheckout(folder: string, size: CheckoutSize): void {
  const { layout, vendors, first = 0 } = size;
  const numbers = Array.from({ length: vendors }, (_, at) => first + at);
  const write = (file: string, text: string): void => {
    const path = join(folder, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  };
  if (layout === 'lorawan-devices')
    write(
      'vendor/index.yaml',
      [
        'vendors:',
        ...numbers.map((n) => `  - id: ${getVendor(n)}\n    name: Invented ${n}\n    vendorID: ${n + 1}`),
      ].join('\n'),
    );
  for (const number of numbers) (layout === 'lorawan-devices' ? yamlVendor : tomlVendor)(number, size, write);
}

type Write = (file: string, text: string) => void;

function yamlVendor(vendor: number, size: CheckoutSize, write: Write): void {
  const root = `vendor/${getVendor(vendor)}`;
  write(`${root}/index.yaml`, ['endDevices:', ...SHAPES.map((_, at) => `  - ${getDevice(vendor, at)}`)].join('\n'));
  for (const [at, [versions, regions]] of SHAPES.entries()) {
    const device = getDevice(vendor, at);
    const served = REGIONS.slice(0, regions);
    const profiles = served
      .map(
        ([, spelled]) =>
          `      ${spelled}:\n        id: ${device}-${spelled.toLowerCase()}\n        lorawanCertified: true\n        codec: ${device}-codec`,
      )
      .join('\n');
    const firmwares = Array.from(
      { length: versions },
      (_, n) =>
        `  - version: '1.${n}'\n    numeric: ${n + 1}\n    hardwareVersions: ['1.0']\n    profiles:\n${profiles}`,
    ).join('\n');
    write(
      `${root}/${device}.yaml`,
      `name: Sensor ${vendor}-${at}\ndescription: ${DESCRIPTION}\nhardwareVersions:\n  - version: '1.0'\n    numeric: 1\nfirmwareVersions:\n${firmwares}\n${YAML_REST}`,
    );
    for (const [, spelled] of served)
      write(
        `${root}/${device}-${spelled.toLowerCase()}.yaml`,
        `vendorProfileID: ${at}\nsupportsClassB: false\nsupportsClassC: ${at % 3 === 0}\nmacVersion: 1.0.3\nregionalParametersVersion: RP001-1.0.3-RevA\nsupportsJoin: true\nmaxEIRP: 16\nsupports32bitFCnt: true\n`,
      );
    const [encoder, decoder] = getScripts(vendor, at, size);
    const examples = EXAMPLES.map(
      ({ bytes, data }, n) =>
        `    - description: Example ${n}\n      input:\n        fPort: 2\n        bytes: [${bytes.join(', ')}]\n      output:\n        data:\n${Object.entries(
          data,
        )
          .map(([name, value]) => `          ${name}: ${value}`)
          .join('\n')}`,
    ).join('\n');
    const [up, down] = at % 2 === 0 ? ['', ''] : ['-up', '-down'];
    write(
      `${root}/${device}-codec.yaml`,
      `uplinkDecoder:\n  fileName: ${device}${up}.js\n  examples:\n${examples}\ndownlinkEncoder:\n  fileName: ${device}${down}.js\n`,
    );
    if (up === '') write(`${root}/${device}.js`, `${decoder}\n${encoder}`);
    else
      for (const [end, text] of [
        [up, decoder],
        [down, encoder],
      ] as const)
        write(`${root}/${device}${end}.js`, text);
  }
}

function tomlVendor(vendor: number, size: CheckoutSize, write: Write): void {
  const root = `vendors/${getVendor(vendor)}`;
  const files = SHAPES.map((_, at) => `"${getDevice(vendor, at)}.toml"`).join(', ');
  write(
    `${root}/vendor.toml`,
    `[vendor]\n  id = "${uuid(vendor, 0)}"\n  name = "Invented ${vendor}"\n  vendor_id = ${vendor + 1}\n  ouis = ["01020304"]\n  devices = [${files}]\n`,
  );
  for (const [at, [versions, regions]] of SHAPES.entries()) {
    const device = getDevice(vendor, at);
    const served = REGIONS.slice(0, regions);
    const profiles = served.map(([region]) => `"${device}-${region}.toml"`).join(', ');
    const firmwares = Array.from(
      { length: versions },
      (_, n) =>
        `  [[device.firmware]]\n    version = "1.${n}"\n    profiles = [${profiles}]\n    codec = "${device}.js"\n`,
    ).join('\n');
    write(
      `${root}/devices/${device}.toml`,
      `[device]\n  id = "${uuid(vendor, at + 1)}"\n  name = "Sensor ${vendor}-${at}"\n  description = "${DESCRIPTION}"\n\n${firmwares}`,
    );
    for (const [region] of served)
      write(
        `${root}/profiles/${device}-${region}.toml`,
        `[profile]\n  id = "${uuid(vendor, at + 100)}"\n  vendor_profile_id = ${at}\n  region = "${region}"\n  mac_version = "1.0.3"\n  reg_params_revision = "RP002-1.0.3"\n  supports_otaa = true\n  supports_class_b = false\n  supports_class_c = ${at % 3 === 0}\n  max_eirp = 16\n`,
      );
    const [encoder, decoder] = getScripts(vendor, at, size);
    write(`${root}/codecs/${device}.js`, `${decoder}\n${encoder}`);
    const items = EXAMPLES.map(
      ({ bytes, data }, n) =>
        `  {\n    name: 'Example ${n}', // as measured\n    input: { fPort: 2, bytes: [${bytes.join(', ')}] },\n    expected: { data: { ${Object.entries(
          data,
        )
          .map(([name, value]) => `${name}: ${value}`)
          .join(', ')} } },\n  },`,
    );
    write(`${root}/codecs/test_decode_${device}.json`, `[\n${items.join('\n')}\n]\n`);
  }
}

const DESCRIPTION =
  'Measures temperature, humidity and what else there is in a room, for years with one battery. Invented for tests, and sold nowhere.';
const YAML_REST = `sensors:\n  - temperature\n  - humidity\ndimensions:\n  width: 80\n  length: 80\n  height: 25\nweight: 120\nbattery:\n  replaceable: true\n  type: AA\noperatingConditions:\n  temperature:\n    min: -20\n    max: 60\nkeySecurity: none\n`;

/** What the decoder of every such codec returns for bytes, three for each value. */
const EXAMPLES = Array.from({ length: 5 }, (_, n) => {
  const values = Array.from({ length: n + 1 }, (_, at) => [at, (n * 251 + at * 37) % 4096] as const);
  return {
    bytes: values.flatMap(([channel, raw]) => [channel, raw >> 8, raw & 0xff]),
    data: Object.fromEntries(values.map(([channel, raw]) => [`value${channel}`, raw / 10])),
  };
});

/** Creates an encoder and a decoder, in total about as large as a real vendor's. */
function getScripts(
  vendor: number,
  device: number,
  { edition = 0, scale = 1 }: CheckoutSize,
): [encoder: string, decoder: string] {
  const bytes = ((SCRIPT_BYTES[(vendor * DEVICES_PER_VENDOR + device * 3) % SCRIPT_BYTES.length] ?? 0) * scale) / 2;
  const head = `// ${getDevice(vendor, device)}, edition ${edition}`;
  const encoder = `function encodeDownlink(input) {\n  var value = Math.round(input.data.value * 10);\n  return { bytes: [1, (value >> 8) & 0xff, value & 0xff], fPort: 10 };\n}\n`;
  const decoder = `function decodeUplink(input) {\n  var data = {};\n  for (var at = 0; at + 2 < input.bytes.length; at += 3) {\n    data['value' + input.bytes[at]] = ((input.bytes[at + 1] << 8) | input.bytes[at + 2]) / 10;\n  }\n  return { data: data };\n}\n`;
  return [`${head}\n${filled(encoder, 'setting', bytes)}`, `${head}\n${filled(decoder, 'channel', bytes)}`];
}

/** Puts the script after a table of functions that fills it up to this number of bytes, as real vendors have one. */
function filled(script: string, name: string, bytes: number): string {
  const parts = [`var ${name}s = {};`];
  let length = script.length + (parts[0]?.length ?? 0);
  for (let at = 0; length < bytes; at += 1) {
    const part = `${name}s.${name}${at} = function (value) {\n  // ${name} ${at}: one digit behind the point, within its limits.\n  var rounded = Math.round(value * 10) / 10;\n  return rounded < -${40 + at} ? -${40 + at} : rounded > ${100 + at} ? ${100 + at} : rounded;\n};`;
    parts.push(part);
    length += part.length + 1;
  }
  return `${parts.join('\n')}\n${script}`;
}

const uuid = (vendor: number, number: number): string =>
  `00000000-0000-4000-8000-${String(vendor).padStart(6, '0')}${String(number).padStart(6, '0')}`;
