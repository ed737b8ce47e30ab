import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lorawanDevicesFolder, yamlProfile } from '../../test/support/profileFolders';
import { startBroker } from './benchBroker';
import { usualEncoder } from './encoders';
import { row, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { type UplinkResult, UplinkRun } from './uplinkRun';
import { JSON_VALUES, makeUplinkSite, SENSORS, type Sending } from './uplinkSite';

const DEVICES = short ? 20 : 500;
const BURST = short ? 300 : 10_000;
const rounds = short ? 1 : 3;
/** Uplinks a second, one after the other. */
const PACE = 500;
const milliseconds = short ? 500 : 10_000;
const SCRIPT_BYTES = 16 * 1024;

/** Reads what BYTES sends; as long as a vendor's, for most of it is of no use for these. */
const CODEC = `${usualEncoder(SCRIPT_BYTES)}
function word(bytes, at) { return (bytes[at] << 8) | bytes[at + 1]; }
function decodeUplink(input) {
  var b = input.bytes;
  return { data: { s0: word(b, 0) * 65536 + word(b, 2), s1: word(b, 4) / 10, s2: word(b, 6), s3: -word(b, 8) / 3, s4: b[10] } };
}
`;

/** The same values as bytes, which a profile decodes. */
const BYTES: Sending = {
  under: 'object',
  configuration: { profileId: 'benchmark/meter/1.0/EU868' },
  payload: (n) => {
    const bytes = Buffer.alloc(12, 0xff); // the last byte keeps it from being JSON
    bytes.writeUInt32BE(n, 0);
    bytes.writeUInt16BE(200 + (n % 70), 4);
    bytes.writeUInt16BE(1013 + (n % 13), 6);
    bytes.writeUInt16BE(n % 65_536, 8);
    bytes.writeUInt8(n % 2, 10);
    return bytes;
  },
};

/** What it costs that the server decodes uplinks, against uplinks that somebody has decoded before. The server has all cores, which it shares with the broker and the load. */
export async function benchDecoding(): Promise<void> {
  const broker = await startBroker();
  say(`\nuplinks that a device profile decodes (${broker.name}, QoS 1), ${DEVICES} devices, ${SENSORS} readings each, codec of ${SCRIPT_BYTES / 1024} KiB: SQLite`);
  try {
    const json = await measured(broker.url, 'JSON', JSON_VALUES);
    const bytes = await measured(broker.url, 'bytes', BYTES);
    say(`  -> bytes: ${(bytes.perSecond / json.perSecond).toFixed(2)} of the uplinks/s, ${(bytes.cpu / json.cpu).toFixed(2)} times the CPU time`);
  } finally {
    await broker.stop();
  }
}

async function measured(brokerUrl: string, name: string, sending: Sending): Promise<Pick<UplinkResult, 'perSecond' | 'cpu'>> {
  const server = await PlantroomServer.start({}, { isPinned: false });
  try {
    await importCodec(server);
    const site = await makeUplinkSite(server, brokerUrl, DEVICES, sending);
    await using run = await UplinkRun.open(site, brokerUrl);
    await run.burst(Math.min(1000, BURST)); // warms up
    const turns: UplinkResult[] = [];
    for (let round = 0; round < rounds; round += 1) turns.push(await run.burst(BURST));
    const burst = row(`${name}, as fast as it goes`, turns);
    row(`${name}, ${PACE} a second`, [await run.steady(PACE, milliseconds)]);
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
        devices: { meter: { name: 'Meter', description: '', firmwareVersions: [{ version: '1.0', numeric: 1, profiles: { 'EU863-870': { id: 'eu868', codec: 'codec' } } }] } },
        profiles: { eu868: yamlProfile() },
        codecs: { codec: { uplinkDecoder: { fileName: 'codec.js' } } },
        files: { 'codec.js': CODEC },
      },
    });
    await server.beside(['profiles', 'import', folder, '--json']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
