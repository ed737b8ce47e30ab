import { Command, CommandDefinition, CommandMode, CreateCommandRequest, ExecuteCommandRequest, ExecuteCommandResponse, ParamType, VerificationStrategy } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CreateDigitalDeviceRequest, DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ask, connection, DEVICES, target } from './fleet';
import { call, frame, open } from './load';
import type { Key, PlantroomServer } from './plantroomServer';

/** The service of commands, as a path. */
export const COMMANDS = '/actuator_command.v2.ActuatorCommandService';

/** A device with a command that moves a valve. */
export interface Valve {
  readonly deviceId: string;
  readonly commandId: string;
}

/** Valves on one connection, and clients that move them. */
export interface Site {
  readonly server: PlantroomServer;
  readonly key: Key;
  readonly connectionId: string;
  readonly valves: readonly Valve[];
}

const MOVE = CommandDefinition.fromPartial({
  name: 'Move',
  mode: CommandMode.COMMAND_MODE_DIRECT,
  verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_NO_VERIFICATION,
  paramsSchema: { position: { type: ParamType.PARAM_TYPE_INTEGER, min: 0 } },
  directPayload: '{"position": {{params.position}}, "device": "{{device.clientDeviceId}}"}',
});

/** Makes a connection with so many valves, through the API. */
export async function makeSite(server: PlantroomServer, key: Key, count: number): Promise<Site> {
  const connectionId = await connection(server, key, `Site of ${count}`);
  const valves: Valve[] = [];
  const worker = async (): Promise<void> => {
    while (valves.length < count) {
      const at = valves.push({ deviceId: '', commandId: '' }) - 1;
      valves[at] = await makeValve(server, key, connectionId, `valve-${count}-${at}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(32, count) }, worker));
  return { server, key, connectionId, valves };
}

async function makeValve(server: PlantroomServer, key: Key, connectionId: string, clientDeviceId: string): Promise<Valve> {
  const request = CreateDigitalDeviceRequest.fromPartial({ name: clientDeviceId, physicalDevice: { clientDeviceId, connectionId } });
  const device = DigitalDevice.decode(await ask(server, key, `${DEVICES}/CreateDigitalDevice`, CreateDigitalDeviceRequest.encode(request).finish()));
  const command = CreateCommandRequest.encode(CreateCommandRequest.fromPartial({ id: device.id, command: MOVE })).finish();
  return { deviceId: device.id, commandId: Command.decode(await ask(server, key, `${COMMANDS}/CreateCommand`, command)).id };
}

/** A client that executes commands on a connection of its own. */
export interface Executor {
  /** The id of the execution. Throws if it was not admitted anew. */
  execute(valve: Valve, position: number): Promise<string>;
  close(): void;
}

/** Connects a client. */
export async function openExecutor({ server, key }: Pick<Site, 'server' | 'key'>): Promise<Executor> {
  const load = target(server, key, `${COMMANDS}/ExecuteCommand`);
  const session = await open(load);
  const execute = async ({ deviceId, commandId }: Valve, position: number): Promise<string> => {
    const request = ExecuteCommandRequest.encode(ExecuteCommandRequest.fromPartial({ id: deviceId, commandId, params: { position } })).finish();
    const answer = await call(session, load, frame(request));
    const told = answer && ExecuteCommandResponse.decode(answer);
    if (!told?.accepted || told.duplicate) throw new Error(`an execution was not admitted: ${JSON.stringify(told)}`);
    return told.executionId;
  };
  return { execute, close: () => session.close() };
}
