import { randomUUID } from 'node:crypto';
import { Channel } from './calls/channel';
import { checkClientOptions } from './calls/checkOptions';
import type { ServiceClient } from './calls/definitions';
import { serviceOf } from './calls/methods';
import { ActuatorCommandServiceDefinition } from './gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceDefinition } from './gen/connection/connection_service';
import { ConnectorServiceDefinition } from './gen/connector/connector_service';
import { DigitalDeviceServiceDefinition } from './gen/digitaldevice/v2/digital_device_service';
import { HealthDefinition } from './gen/grpc/health/v1/health';
import { MediaServiceDefinition } from './gen/media/v1/media_service';
import { AccessControlServiceDefinition } from './gen/organization_access_control/access_control_service';
import { OrganizationsServiceDefinition } from './gen/organizations_service';
import { SensorTemplateServiceDefinition } from './gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceDefinition } from './gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceDefinition } from './gen/userprofile/user_profile_service';
import type { ClientOptions } from './options';

/** The services by their names on the client. */
export const SERVICES = {
  devices: DigitalDeviceServiceDefinition,
  commands: ActuatorCommandServiceDefinition,
  sensorTemplates: SensorTemplateServiceDefinition,
  connections: ConnectionServiceDefinition,
  connectors: ConnectorServiceDefinition,
  readings: SensorQueryServiceDefinition,
  media: MediaServiceDefinition,
  organizations: OrganizationsServiceDefinition,
  access: AccessControlServiceDefinition,
  userProfile: UserProfileServiceDefinition,
  health: HealthDefinition,
} as const;

type Services = { readonly [Name in keyof typeof SERVICES]: ServiceClient<(typeof SERVICES)[Name]> };

/** A client of one server, as one organization. Safe to use from everywhere at the same time; one is enough for a process. */
export interface PlantroomClient extends Services {
  /** Ends every call that runs with CANCELLED `client_closed`, and the connection. */
  close(): void;
}

/**
 * Makes a client. It connects with its first call, and again by itself. A call that finds no server waits for it as long as the pauses of
 * `retry` last (6 s unless said), then fails with UNAVAILABLE; one that broke off in the middle is made again only if that is safe: reads, and
 * ExecuteCommand, which is given a trigger id unless it has one. Throws PlantroomError `options_invalid` that names every wrong option.
 */
export function createPlantroomClient(options: ClientOptions): PlantroomClient {
  checkClientOptions(options);
  const channel = new Channel(options, Object.values(SERVICES));
  const services = Object.fromEntries(Object.entries(SERVICES).map(([name, definition]) => [name, serviceOf(channel, definition)])) as unknown as Services;
  return { ...services, commands: triggered(services.commands), close: () => channel.close() };
}

/** ExecuteCommand with a trigger id, by which the server does it once however often it is asked. */
function triggered(commands: Services['commands']): Services['commands'] {
  return { ...commands, executeCommand: (request, options) => commands.executeCommand({ ...request, triggerId: request.triggerId || randomUUID() }, options) };
}
