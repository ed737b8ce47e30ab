import type { Command, CommandRepository } from '../../commands';
import type { Connection, ConnectionRepository } from '../../connections';
import type { Device } from '../../devices';
import type { SensorTemplate, SensorTemplateRepository } from '../../sensorTemplates';
import type { InputRevisions } from './inputRevisionRepository';

/** The current records that a request depends on. */
export interface ExecutionInputs {
  readonly device: Device;
  readonly command: Command;
  /** The command that queries the state afterwards; undefined if the strategy needs none. */
  readonly queryCommand: Command | undefined;
  /** The connection of the physical device; undefined if the device is not bound. */
  readonly connection: Connection | undefined;
  /** The templates of the sensors whose state the command expects. */
  readonly templates: readonly SensorTemplate[];
}

/** The repositories from which the inputs are loaded. */
export interface InputRepositories {
  readonly commands: CommandRepository;
  readonly connections: ConnectionRepository;
  readonly templates: SensorTemplateRepository;
}

/** Loads all records that a request depends on. Throws `command_not_found`. */
export async function loadExecutionInputs(
  repos: InputRepositories,
  organizationId: string,
  device: Device,
  commandId: string,
): Promise<ExecutionInputs> {
  const command = await repos.commands.get(organizationId, device.id, commandId);
  const sendsQuery = command.verificationStrategy === 'query_after_ack' && command.queryCommandId !== undefined;
  const queryCommand = sendsQuery
    ? await repos.commands.get(organizationId, device.id, command.queryCommandId)
    : undefined;
  const connection =
    device.physicalDevice && (await repos.connections.find(organizationId, device.physicalDevice.connectionId));
  const expectedSensorIds = new Set(command.expectedSensorStates.map((state) => state.sensorId));
  const templateIds = device.sensors
    .filter((sensor) => expectedSensorIds.has(sensor.id))
    .map((sensor) => sensor.sensorTemplateId);
  const templates = templateIds.length > 0 ? await repos.templates.findTemplates(organizationId, templateIds) : [];
  return { device, command, queryCommand, connection, templates };
}

/** Returns the revisions that show whether the inputs changed. A template in use retains its value type. */
export function getRevisions({ device, command, queryCommand, connection }: ExecutionInputs): InputRevisions {
  return {
    device: device.revision,
    physicalDeviceId: device.physicalDevice?.id ?? null,
    command: command.revision,
    query: queryCommand?.revision ?? null,
    connectionId: connection?.id ?? null,
    connection: connection?.revision ?? null,
  };
}
