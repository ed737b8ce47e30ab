import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { CreateCommandRequest, ExecuteCommandRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { CreateDigitalDeviceRequest, ListDigitalDevicesRequest, type ListDigitalDevicesResponse } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { readAll } from './audit';
import { answer, type Clients, isGone } from './clients';
import { moveCommand } from './plant';
import type { Outcome } from './settle';
import { errorLines } from './serverLog';
import type { Site } from './site';

const WRITERS = 64;
const LOOK_EVERY_MS = 20;
const MOST_LOOKS = 500;

/** What the server acknowledged. */
interface Written {
  readonly devices: Set<string>;
  readonly executions: { readonly executionId: string }[];
}

/** 64 clients that make devices and execute on them, without a pause; the server is killed at any moment, and every write that was acknowledged is looked for. */
export async function proveWriters(site: Site, rounds: number): Promise<Outcome> {
  let running = await site.startSafely();
  const connectionId = await makeConnection(running.clients);
  const written: Written = { devices: new Set(), executions: [] };
  const [lost, wrong]: [string[], string[]] = [[], []];
  for (let round = 1; round <= rounds && lost.length === 0; round += 1) {
    const { clients, victim } = running;
    const writing = Promise.all(Array.from({ length: WRITERS }, async (_, n) => await write(clients, `round ${round} writer ${n}`, connectionId, written)));
    await atWork(written, written.devices.size + WRITERS);
    await wait(randomInt(900));
    await victim.kill();
    await writing;
    clients.close();
    running = await site.startSafely();
    const { ids, total } = await stored(running.clients);
    if (total !== ids.size) wrong.push(`the server counts ${total} devices and lists ${ids.size}`);
    lost.push(...[...written.devices].filter((id) => !ids.has(id)).map((id) => `device ${id} was acknowledged and is not there`));
    const executions = await readAll(running.clients, written.executions);
    lost.push(...[...executions].filter(([, execution]) => !execution).map(([id]) => `${id} was acknowledged and is not there`));
  }
  running.clients.close();
  await running.victim.kill();
  const name = `any moment, ${WRITERS} writers (${written.devices.size} devices)`;
  const counts = { kills: rounds, missed: 0, acknowledged: written.executions.length, carriedOut: 0, converged: 0, unconfirmed: 0, uplinks: 0 };
  return { name, ...counts, lost, doubled: [], wrong, errors: errorLines(site.folder), folder: site.folder };
}

/** Resolves when so many devices are written, or have not been for long. */
async function atWork({ devices }: Written, count: number): Promise<void> {
  for (let look = 0; devices.size < count && look < MOST_LOOKS; look += 1) await wait(LOOK_EVERY_MS);
}

/** A connection that no gateway is attached to: what is executed on its devices stays queued. */
async function makeConnection({ connections, metadata }: Clients): Promise<string> {
  const request = CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name: 'Nobody is there' });
  return (await answer<{ id: string }>((answered) => connections.createConnection(request, metadata, answered))).id;
}

/** Writes until the server is gone: devices, some bound and with a command that is executed. Every id that it got an answer for goes into `written`. */
async function write({ devices, commands, metadata }: Clients, name: string, connectionId: string, written: Written): Promise<void> {
  try {
    for (let n = 0; ; n += 1) {
      const physicalDevice = n % 3 === 0 ? { clientDeviceId: `${name}-${n}`, connectionId } : undefined;
      const create = CreateDigitalDeviceRequest.fromPartial({ name: `${name}-${n}`, ...(physicalDevice && { physicalDevice }) });
      const { id } = await answer<{ id: string }>((answered) => devices.createDigitalDevice(create, metadata, answered));
      written.devices.add(id);
      if (!physicalDevice) continue;
      const command = CreateCommandRequest.fromPartial({ id, command: moveCommand(false) });
      const { id: commandId } = await answer<{ id: string }>((answered) => commands.createCommand(command, metadata, answered));
      const execute = ExecuteCommandRequest.fromPartial({ id, commandId, params: { n } });
      written.executions.push(await answer<{ executionId: string }>((answered) => commands.executeCommand(execute, metadata, answered)));
    }
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/** Every device that the server has, and its own count of them. */
async function stored({ devices, metadata }: Clients): Promise<{ ids: Set<string>; total: number }> {
  const ids = new Set<string>();
  let page: ListDigitalDevicesResponse | undefined;
  do {
    const request = ListDigitalDevicesRequest.fromPartial({ limit: 200, pageToken: page?.nextPageToken ?? '' });
    page = await answer<ListDigitalDevicesResponse>((answered) => devices.listDigitalDevices(request, metadata, answered));
    for (const device of page.devices) ids.add(device.id);
  } while (page.nextPageToken);
  return { ids, total: page.total };
}
