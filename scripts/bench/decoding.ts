import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lorawanDevicesFolder, yamlProfile } from '../../test/support/profileFolders';
import { startBroker } from './benchBroker';
import { createEncoder } from './encoders';
import { printRow, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { type UplinkResult, UplinkRun } from './uplinkRun';
import { JSON_VALUES, createUplinkSite, SENSORS, type Sending } from './uplinkSite';

const DEVICES = isShort ? 20 : 500;
const BURST = isShort ? 300 : 10_000;
const rounds = isShort ? 1 : 3;
/** Uplinks per second. */
const PACE = 500;
const milliseconds = isShort ? 500 : 10_000;
const SCRIPT_BYTES = 16 * 1024;

/** Decodes the payloads of BYTES. It is as long as a vendor's codec, most of which is unused here. */
const CODEC = `${createEncoder(SCRIPT_BYTES)}
function word(bytes, at) { return (bytes[at] << 8) | bytes[at + 1]; }
function decodeUplink(input) {
  var b = input.bytes;
  return { data: { s0: word(b, 0) * 65536 + word(b, 2), s1: word(b, 4) / 10, s2: word(b, 6), s3: -word(b, 8) / 3, s4: b[10] } };
}
`;

/** The same values as bytes, which a device profile decodes. */
const BYTES: Sending = {
  valuesField: 'object',
  configuration: { profileId: 'benchmark/meter/1.0/EU868' },
  payload: (n) => {
    const bytes = Buffer.alloc(12, 0xff); // the last byte makes it invalid JSON
    bytes.writeUInt32BE(n, 0);
    bytes.writeUInt16BE(200 + (n % 70), 4);
    bytes.writeUInt16BE(1013 + (n % 13), 6);
    bytes.writeUInt16BE(n % 65_536, 8);
    bytes.writeUInt8(n % 2, 10);
    return bytes;
  },
};

/**
 * Measures uplinks that the server decodes against uplinks that are already decoded. The server shares all cores with
 * the broker and the load.
 */
export async function benchDecoding(): Promise<void> {
  const broker = await startBroker();
  print(
    `\nuplinks that a device profile decodes (${broker.name}, QoS 1), ${DEVICES} devices, ${SENSORS} readings each, codec of ${SCRIPT_BYTES / 1024} KiB: SQLite`,
  );
  try {
    const json = await measureUplinks(broker.url, 'JSON', JSON_VALUES);
    const bytes = await measureUplinks(broker.url, 'bytes', BYTES);
    print(
      `  -> bytes: ${(bytes.perSecond / json.perSecond).toFixed(2)} of the uplinks/s, ${(bytes.cpu / json.cpu).toFixed(2)} times the CPU time`,
    );
  } finally {
    await broker.stop();
  }
}

async function measureUplinks(
  brokerUrl: string,
  name: string,
  sending: Sending,
): Promise<Pick<UplinkResult, 'perSecond' | 'cpu'>> {
  const server = await PlantroomServer.start({}, { isPinned: false });
  try {
    await importCodec(server);
    const site = await createUplinkSite(server, brokerUrl, DEVICES, sending);
    await using run = await UplinkRun.open(site, brokerUrl);
    await run.burst(Math.min(1000, BURST)); // warms up
    const turns: UplinkResult[] = [];
    for (let round = 0; round < rounds; round += 1) turns.push(await run.burst(BURST));
    const burst = printRow(`${name}, maximum rate`, turns);
    printRow(`${name}, ${PACE}/s`, [await run.steady(PACE, milliseconds)]);
    return burst;
  } finally {
    await server.remove();
  }
}

async function importCodec(server: PlantroomServer): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-decoding-'));
  try {
    lorawanDevicesFolder(folder, {
      benchmark: {
        devices: {
          meter: {
            name: 'Meter',
            description: '',
            firmwareVersions: [
              { version: '1.0', numeric: 1, profiles: { 'EU863-870': { id: 'eu868', codec: 'codec' } } },
            ],
          },
        },
        profiles: { eu868: yamlProfile() },
        codecs: { codec: { uplinkDecoder: { fileName: 'codec.js' } } },
        files: { 'codec.js': CODEC },
      },
    });
    await server.runCommand(['profiles', 'import', folder, '--json']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
