import {
  Command,
  CommandDefinition,
  CommandMode,
  CreateCommandRequest,
  ExecuteCommandRequest,
  ExecuteCommandResponse,
  ParamType,
  VerificationStrategy,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CreateDigitalDeviceRequest, DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { callMethod, createConnection, DEVICES, toLoadTarget } from './fleet';
import { call, frame, openSession } from './load';
import type { Key, PlantroomServer } from './plantroomServer';

/** The path of the command service. */
export const COMMANDS = '/actuator_command.v2.ActuatorCommandService';

/** A device with a command that moves a valve. */
export interface Valve {
  readonly deviceId: string;
  readonly commandId: string;
}

/** Valves on one connection. */
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

/** Creates a connection with `count` valves through the API. */
export async function createSite(server: PlantroomServer, key: Key, count: number): Promise<Site> {
  const connectionId = await createConnection(server, key, `Site of ${count}`);
  const valves: Valve[] = [];
  const worker = async (): Promise<void> => {
    while (valves.length < count) {
      const at = valves.push({ deviceId: '', commandId: '' }) - 1;
      valves[at] = await createValve(server, key, connectionId, `valve-${count}-${at}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(32, count) }, worker));
  return { server, key, connectionId, valves };
}

async function createValve(
  server: PlantroomServer,
  key: Key,
  connectionId: string,
  clientDeviceId: string,
): Promise<Valve> {
  const request = CreateDigitalDeviceRequest.fromPartial({
    name: clientDeviceId,
    physicalDevice: { clientDeviceId, connectionId },
  });
  const device = DigitalDevice.decode(
    await callMethod(
      server,
      key,
      `${DEVICES}/CreateDigitalDevice`,
      CreateDigitalDeviceRequest.encode(request).finish(),
    ),
  );
  const command = CreateCommandRequest.encode(
    CreateCommandRequest.fromPartial({ id: device.id, command: MOVE }),
  ).finish();
  return {
    deviceId: device.id,
    commandId: Command.decode(await callMethod(server, key, `${COMMANDS}/CreateCommand`, command)).id,
  };
}

/** A client that executes commands, with its own connection. */
export interface Executor {
  /** Executes a command and returns the id of the execution. Throws if it is rejected or a duplicate. */
  execute(valve: Valve, position: number): Promise<string>;
  close(): void;
}

/** Connects a client. */
export async function openExecutor({ server, key }: Pick<Site, 'server' | 'key'>): Promise<Executor> {
  const load = toLoadTarget(server, key, `${COMMANDS}/ExecuteCommand`);
  const session = await openSession(load);
  const execute = async ({ deviceId, commandId }: Valve, position: number): Promise<string> => {
    const request = ExecuteCommandRequest.encode(
      ExecuteCommandRequest.fromPartial({ id: deviceId, commandId, params: { position } }),
    ).finish();
    const bytes = await call(session, load, frame(request));
    const response = bytes && ExecuteCommandResponse.decode(bytes);
    if (!response?.accepted || response.duplicate)
      throw new Error(`an execution was rejected: ${JSON.stringify(response)}`);
    return response.executionId;
  };
  return { execute, close: () => session.close() };
}
