// npm run test:crash: kill -9 while 64 clients write, start again, look for every write that was acknowledged. Ends with 1 if one is lost.
import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { credentials, Metadata } from '@grpc/grpc-js';
import { DigitalDeviceServiceClient, type ListDigitalDevicesResponse } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { PlantroomServer } from '../bench/plantroomServer';

const WRITERS = 64;
const rounds = Number(process.argv[process.argv.indexOf('--rounds') + 1]) || 10;
const say = (text: string): void => void process.stdout.write(`${text}\n`);

function client(server: PlantroomServer): { devices: DigitalDeviceServiceClient; metadata: Metadata } {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(server.headers())) metadata.set(name, value);
  const devices = new DigitalDeviceServiceClient(server.url.replace(/^https?:\/\//, ''), credentials.createSsl(server.ca), { 'grpc.enable_retries': 0 });
  return { devices, metadata };
}

/** Writes until the server is gone; every id that it got an answer for goes into `acknowledged`. */
async function writer(server: PlantroomServer, name: string, acknowledged: Set<string>): Promise<void> {
  const { devices, metadata } = client(server);
  try {
    for (let n = 0; ; n += 1) {
      const id = await new Promise<string | undefined>((resolve) => {
        devices.createDigitalDevice({ organizationId: '', name: `${name}-${n}`, physicalDevice: undefined }, metadata, (error, device) => resolve(error ? undefined : device.id));
      });
      if (id === undefined) return;
      acknowledged.add(id);
    }
  } finally {
    devices.close();
  }
}

/** Every device that the server has, and its own count of them. */
async function stored(server: PlantroomServer): Promise<{ ids: Set<string>; total: number }> {
  const { devices, metadata } = client(server);
  const ids = new Set<string>();
  let page: ListDigitalDevicesResponse | undefined;
  do {
    const pageToken: string = page?.nextPageToken ?? '';
    page = await new Promise<ListDigitalDevicesResponse>((resolve, reject) => {
      devices.listDigitalDevices({ organizationId: '', limit: 200, pageToken }, metadata, (error, response) => (error ? reject(error) : resolve(response)));
    });
    for (const device of page.devices) ids.add(device.id);
  } while (page.nextPageToken);
  devices.close();
  return { ids, total: page.total };
}

async function main(): Promise<void> {
  const acknowledged = new Set<string>();
  let lost = 0;
  let server = await PlantroomServer.start();
  for (let round = 1; round <= rounds; round += 1) {
    const before = acknowledged.size;
    const writers = Promise.all(Array.from({ length: WRITERS }, async (_, n) => await writer(server, `round ${round} writer ${n}`, acknowledged)));
    await wait(randomInt(300, 1200));
    await server.process.stop('SIGKILL');
    await writers;
    server = await PlantroomServer.start({}, server.folder);
    const { ids, total } = await stored(server);
    const missing = [...acknowledged].filter((id) => !ids.has(id));
    lost = missing.length;
    const wrong = total === ids.size ? '' : `, TOTAL WRONG: ${total}`;
    if (wrong) process.exitCode = 1;
    say(`round ${String(round).padStart(2)}: ${String(acknowledged.size - before).padStart(5)} writes acknowledged, then kill -9; stored ${ids.size}${wrong}, lost ${lost}`);
    if (lost > 0) break;
  }
  await server.remove();
  say(`${rounds} rounds, ${acknowledged.size} writes acknowledged, ${lost} lost`);
  if (lost > 0) process.exitCode = 1;
}

void main();
