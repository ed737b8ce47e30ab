import type { Command, CommandRepository } from '../../commands';
import type { Connection, ConnectionRepository } from '../../connections';
import type { Device } from '../../devices';
import type { SensorTemplate, SensorTemplateRepository } from '../../sensorTemplates';
import type { FactRevisions } from './factRepository';

/** What a request is about, as it is now. */
export interface SubmitFacts {
  readonly device: Device;
  readonly command: Command;
  /** The command that asks for the state afterwards; undefined: the strategy needs none. */
  readonly query: Command | undefined;
  /** Of the physical device; undefined: the device is bound to none. */
  readonly connection: Connection | undefined;
  /** Those of the sensors that the command expects a state of. */
  readonly templates: readonly SensorTemplate[];
}

/** Where the facts come from. */
export interface FactRepositories {
  readonly commands: CommandRepository;
  readonly connections: ConnectionRepository;
  readonly templates: SensorTemplateRepository;
}

/** All that a request is about. Throws `command_not_found`. */
export async function readFacts(repos: FactRepositories, organizationId: string, device: Device, commandId: string): Promise<SubmitFacts> {
  const command = await repos.commands.get(organizationId, device.id, commandId);
  const asks = command.verificationStrategy === 'query_after_ack' && command.queryCommandId !== undefined;
  const query = asks ? await repos.commands.get(organizationId, device.id, command.queryCommandId) : undefined;
  const connection = device.physicalDevice && (await repos.connections.find(organizationId, device.physicalDevice.connectionId));
  const wanted = new Set(command.expectedSensorStates.map((state) => state.sensorId));
  const templateIds = device.sensors.filter((sensor) => wanted.has(sensor.id)).map((sensor) => sensor.sensorTemplateId);
  const templates = templateIds.length > 0 ? await repos.templates.findTemplates(organizationId, templateIds) : [];
  return { device, command, query, connection, templates };
}

/** What tells whether facts are still the same; a template that is in use keeps its value type. */
export function revisionsOf({ device, command, query, connection }: SubmitFacts): FactRevisions {
  return {
    device: device.revision,
    physicalDeviceId: device.physicalDevice?.id ?? null,
    command: command.revision,
    query: query?.revision ?? null,
    connectionId: connection?.id ?? null,
    connection: connection?.revision ?? null,
  };
}
