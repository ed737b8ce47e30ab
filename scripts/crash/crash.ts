// npm run test:crash: kill -9 while 64 clients write, start again, look for every write that was acknowledged. Ends with 1 if one is lost.
import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { ActuatorCommandServiceClient, CommandDefinition, CommandMode, ListExecutionsRequest, VerificationStrategy } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceClient, CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { DigitalDeviceServiceClient, type ListDigitalDevicesResponse } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { PlantroomServer } from '../bench/plantroomServer';

const WRITERS = 64;
const rounds = Number(process.argv[process.argv.indexOf('--rounds') + 1]) || 10;
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const SWITCH_ON = CommandDefinition.fromPartial({ name: 'Switch on', mode: CommandMode.COMMAND_MODE_DIRECT, verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_NO_VERIFICATION, directPayload: '{"on": true}' });

/** What the server acknowledged. */
interface Acknowledged {
  readonly devices: Set<string>;
  /** One execution, by its device. */
  readonly executions: Map<string, string>;
}

function clients(server: PlantroomServer) {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(server.headers())) metadata.set(name, value);
  const connect = [server.url.replace(/^https?:\/\//, ''), credentials.createSsl(server.ca), { 'grpc.enable_retries': 0 }] as const;
  const [devices, commands, connections] = [new DigitalDeviceServiceClient(...connect), new ActuatorCommandServiceClient(...connect), new ConnectionServiceClient(...connect)];
  const close = (): void => [devices, commands, connections].forEach((client) => client.close());
  return { devices, commands, connections, metadata, close };
}

async function answer<Answer>(ask: (answered: (error: ServiceError | null, answer: Answer) => void) => void): Promise<Answer> {
  return await new Promise((resolve, reject) => ask((error, given) => (error ? reject(error) : resolve(given))));
}

/** A connection that no gateway is attached to: what is executed on its devices stays queued. */
async function makeConnection(server: PlantroomServer): Promise<string> {
  const { connections, metadata, close } = clients(server);
  const request = CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name: 'Crash' });
  const { id } = await answer<{ id: string }>((answered) => connections.createConnection(request, metadata, answered));
  close();
  return id;
}

/** Writes until the server is gone: devices, some bound and with a command that is executed. Every id that it got an answer for goes into `acknowledged`. */
async function writer(server: PlantroomServer, name: string, connectionId: string, acknowledged: Acknowledged): Promise<void> {
  const { devices, commands, metadata, close } = clients(server);
  const organizationId = '';
  try {
    for (let n = 0; ; n += 1) {
      const physicalDevice = n % 3 === 0 ? { clientDeviceId: `${name}-${n}`, connectionId, configuration: undefined } : undefined;
      const { id } = await answer<{ id: string }>((answered) => devices.createDigitalDevice({ organizationId, name: `${name}-${n}`, physicalDevice }, metadata, answered));
      acknowledged.devices.add(id);
      if (!physicalDevice) continue;
      const { id: commandId } = await answer<{ id: string }>((answered) => commands.createCommand({ id, organizationId, command: SWITCH_ON }, metadata, answered));
      const { executionId } = await answer<{ executionId: string }>((answered) => commands.executeCommand({ id, organizationId, commandId, params: undefined }, metadata, answered));
      acknowledged.executions.set(id, executionId);
    }
  } catch (error) {
    if (!isGone(error)) throw error;
  } finally {
    close();
  }
}

/** Whether the connection ended because the server was killed; a half answer may look like a fault of its own. Anything else is a fault of this program. */
function isGone(error: unknown): boolean {
  return [status.UNAVAILABLE, status.INTERNAL, status.CANCELLED, status.UNKNOWN].includes((error as ServiceError).code);
}

/** How many acknowledged executions the server does not list with their device any more. */
async function lostExecutions(server: PlantroomServer, { executions }: Acknowledged): Promise<number> {
  const { commands, metadata, close } = clients(server);
  const open = executions.entries();
  let lost = 0;
  const check = async (): Promise<void> => {
    for (const [id, executionId] of open) {
      const { items } = await answer<{ items: { id: string }[] }>((answered) => commands.listExecutions(ListExecutionsRequest.fromPartial({ id, limit: 200 }), metadata, answered));
      if (!items.some((item) => item.id === executionId)) lost += 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, check)); // they share one iterator
  close();
  return lost;
}

/** Every device that the server has, and its own count of them. */
async function stored(server: PlantroomServer): Promise<{ ids: Set<string>; total: number }> {
  const { devices, metadata, close } = clients(server);
  const ids = new Set<string>();
  let page: ListDigitalDevicesResponse | undefined;
  do {
    const pageToken: string = page?.nextPageToken ?? '';
    page = await new Promise<ListDigitalDevicesResponse>((resolve, reject) => {
      devices.listDigitalDevices({ organizationId: '', limit: 200, pageToken }, metadata, (error, response) => (error ? reject(error) : resolve(response)));
    });
    for (const device of page.devices) ids.add(device.id);
  } while (page.nextPageToken);
  close();
  return { ids, total: page.total };
}

async function main(): Promise<void> {
  const acknowledged = new Set<string>();
  let executed = 0;
  let lost = 0;
  let server = await PlantroomServer.start();
  const connectionId = await makeConnection(server);
  for (let round = 1; round <= rounds; round += 1) {
    const written: Acknowledged = { devices: new Set(), executions: new Map() };
    const writers = Promise.all(Array.from({ length: WRITERS }, async (_, n) => await writer(server, `round ${round} writer ${n}`, connectionId, written)));
    await wait(randomInt(600, 1500));
    await server.process.stop('SIGKILL');
    await writers;
    server = await PlantroomServer.start({}, server.folder);
    const { ids, total } = await stored(server);
    for (const id of written.devices) acknowledged.add(id);
    executed += written.executions.size;
    const missing = [...acknowledged].filter((id) => !ids.has(id));
    lost = missing.length + (await lostExecutions(server, written));
    const wrong = total === ids.size ? '' : `, TOTAL WRONG: ${total}`;
    if (wrong) process.exitCode = 1;
    say(`round ${String(round).padStart(2)}: ${String(written.devices.size).padStart(5)} devices and ${String(written.executions.size).padStart(4)} executions acknowledged, then kill -9; stored ${ids.size}${wrong}, lost ${lost}`);
    if (lost > 0) break;
  }
  await server.remove();
  say(`${rounds} rounds, ${acknowledged.size} devices and ${executed} executions acknowledged, ${lost} lost`);
  if (lost > 0) process.exitCode = 1;
}

void main();
