import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  CreateCommandRequest,
  ExecuteCommandRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import {
  CreateDigitalDeviceRequest,
  ListDigitalDevicesRequest,
  type ListDigitalDevicesResponse,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { readExecutions } from './executionFindings';
import { callUnary, type Clients, isServerGone } from './clients';
import { createMoveCommand } from './plant';
import type { Outcome } from './outcome';
import { readErrorLines } from './serverLog';
import type { Site } from './site';

const WRITERS = 64;
const POLL_INTERVAL_MS = 20;
const MAX_POLLS = 500;

/** The writes that the server acknowledged. */
interface Written {
  readonly devices: Set<string>;
  readonly executions: { readonly executionId: string }[];
}

/**
 * Runs 64 clients that create devices and execute commands without a pause, kills the server at a random moment, and
 * checks that every acknowledged write exists.
 */
export async function proveWriters(site: Site, rounds: number): Promise<Outcome> {
  let running = await site.startWithoutTrap();
  const connectionId = await createConnection(running.clients);
  const written: Written = { devices: new Set(), executions: [] };
  const [lost, wrong]: [string[], string[]] = [[], []];
  for (let round = 1; round <= rounds && lost.length === 0; round += 1) {
    const { clients, victim } = running;
    const writing = Promise.all(
      Array.from(
        { length: WRITERS },
        async (_, n) => await writeUntilKilled(clients, `round ${round} writer ${n}`, connectionId, written),
      ),
    );
    await waitForWrites(written, written.devices.size + WRITERS);
    await wait(randomInt(900));
    await victim.kill();
    await writing;
    clients.close();
    running = await site.startWithoutTrap();
    const { ids, total } = await listStoredDevices(running.clients);
    if (total !== ids.size) wrong.push(`the server counts ${total} devices but lists ${ids.size}`);
    lost.push(
      ...[...written.devices]
        .filter((id) => !ids.has(id))
        .map((id) => `device ${id} was acknowledged but does not exist`),
    );
    const executions = await readExecutions(running.clients, written.executions);
    lost.push(
      ...[...executions]
        .filter(([, execution]) => !execution)
        .map(([id]) => `${id} was acknowledged but does not exist`),
    );
  }
  running.clients.close();
  await running.victim.kill();
  const name = `any moment, ${WRITERS} writers (${written.devices.size} devices)`;
  const counts = {
    kills: rounds,
    missed: 0,
    acknowledged: written.executions.length,
    carriedOut: 0,
    converged: 0,
    unconfirmed: 0,
    uplinks: 0,
  };
  return { name, ...counts, lost, doubled: [], wrong, errors: readErrorLines(site.folder), folder: site.folder };
}

/** Resolves when `count` devices have been written, or after 10 s. */
async function waitForWrites({ devices }: Written, count: number): Promise<void> {
  for (let poll = 0; devices.size < count && poll < MAX_POLLS; poll += 1) await wait(POLL_INTERVAL_MS);
}

/** Creates a connection without a gateway, so that commands for its devices stay queued. */
async function createConnection({ connections, metadata }: Clients): Promise<string> {
  const request = CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name: 'No gateway' });
  return (await callUnary<{ id: string }>((callback) => connections.createConnection(request, metadata, callback))).id;
}

/**
 * Creates devices until the server is killed; every third one is bound and gets a command that is executed. Adds the id
 * of every acknowledged write to `written`.
 */
async function writeUntilKilled(
  { devices, commands, metadata }: Clients,
  name: string,
  connectionId: string,
  written: Written,
): Promise<void> {
  try {
    for (let n = 0; ; n += 1) {
      const physicalDevice = n % 3 === 0 ? { clientDeviceId: `${name}-${n}`, connectionId } : undefined;
      const create = CreateDigitalDeviceRequest.fromPartial({
        name: `${name}-${n}`,
        ...(physicalDevice && { physicalDevice }),
      });
      const { id } = await callUnary<{ id: string }>((callback) =>
        devices.createDigitalDevice(create, metadata, callback),
      );
      written.devices.add(id);
      if (!physicalDevice) continue;
      const command = CreateCommandRequest.fromPartial({ id, command: createMoveCommand(false) });
      const { id: commandId } = await callUnary<{ id: string }>((callback) =>
        commands.createCommand(command, metadata, callback),
      );
      const execute = ExecuteCommandRequest.fromPartial({ id, commandId, params: { n } });
      written.executions.push(
        await callUnary<{ executionId: string }>((callback) => commands.executeCommand(execute, metadata, callback)),
      );
    }
  } catch (error) {
    if (!isServerGone(error)) throw error;
  }
}

/** Lists the ids of all devices on the server, and the total that the server reports. */
async function listStoredDevices({ devices, metadata }: Clients): Promise<{ ids: Set<string>; total: number }> {
  const ids = new Set<string>();
  let page: ListDigitalDevicesResponse | undefined;
  do {
    const request = ListDigitalDevicesRequest.fromPartial({ limit: 200, pageToken: page?.nextPageToken ?? '' });
    page = await callUnary<ListDigitalDevicesResponse>((callback) =>
      devices.listDigitalDevices(request, metadata, callback),
    );
    for (const device of page.devices) ids.add(device.id);
  } while (page.nextPageToken);
  return { ids, total: page.total };
}
