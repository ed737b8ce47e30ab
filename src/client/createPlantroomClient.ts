import { randomUUID } from 'node:crypto';
import { Channel } from './calls/channel';
import { checkClientOptions } from './calls/checkOptions';
import { closesWith } from './calls/closing';
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
import { PlantroomError } from './plantroomError';

/** The services by their names on the client. Named types, so that an editor shows what each method says of itself. */
interface Definitions {
  /** Digital devices and their sensors. */
  readonly devices: DigitalDeviceServiceDefinition;
  /** Commands of devices, and their executions. */
  readonly commands: ActuatorCommandServiceDefinition;
  /** What sensors measure. */
  readonly sensorTemplates: SensorTemplateServiceDefinition;
  /** Ways to devices. */
  readonly connections: ConnectionServiceDefinition;
  /** Types of connections. */
  readonly connectors: ConnectorServiceDefinition;
  /** What sensors showed. */
  readonly readings: SensorQueryServiceDefinition;
  /** Pictures. */
  readonly media: MediaServiceDefinition;
  /** Organizations. */
  readonly organizations: OrganizationsServiceDefinition;
  /** API keys, members, roles, the audit. */
  readonly access: AccessControlServiceDefinition;
  /** Whose key it is. */
  readonly userProfile: UserProfileServiceDefinition;
  /** Whether the server serves. */
  readonly health: HealthDefinition;
}

/** Their descriptions. */
export const SERVICES: Definitions = {
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
};

type Services = { readonly [Name in keyof Definitions]: ServiceClient<Definitions[Name]> };

/** A client of one server, as one organization. Safe to use from everywhere at the same time; one is enough for a process. */
export interface PlantroomClient extends Services {
  /** Ends every call that runs with CANCELLED `client_closed`, and the connection. */
  close(): void;
}

/**
 * Makes a client. It connects with its first call, and again by itself. A call that finds no server waits for it as long as the pauses of
 * `retry` last (6 s unless said), then fails with UNAVAILABLE; a stream of answers does not wait: watchExecutions and its like open one again. A call that
 * broke off in the middle is made again only if that is safe: reads, and ExecuteCommand, which is given a trigger id unless it has one; where it fails,
 * `metadata.trigger_id` of the error is that id, by which it can be repeated. Throws PlantroomError `options_invalid` that names every wrong option.
 */
export function createPlantroomClient(options: ClientOptions): PlantroomClient {
  checkClientOptions(options);
  const channel = new Channel(options, Object.values(SERVICES));
  const services = Object.fromEntries(Object.entries(SERVICES).map(([name, definition]) => [name, serviceOf(channel, definition)])) as unknown as Services;
  const client = { ...services, commands: triggered(services.commands) };
  for (const service of Object.values(client)) closesWith(service, channel.closed);
  return { ...client, close: () => channel.close() };
}

/** ExecuteCommand with a trigger id, by which the server does it once however often it is asked. */
function triggered(commands: Services['commands']): Services['commands'] {
  return {
    ...commands,
    executeCommand: async (request, options) => {
      const triggerId = request.triggerId || randomUUID();
      try {
        return await commands.executeCommand({ ...request, triggerId }, options);
      } catch (error) {
        throw error instanceof PlantroomError ? withTrigger(error, triggerId) : error;
      }
    },
  };
}

function withTrigger({ message, status, reason, metadata, violations, requestId, retryAfterMs, cause }: PlantroomError, triggerId: string): PlantroomError {
  return new PlantroomError(message, { status, reason, metadata: { ...metadata, trigger_id: triggerId }, violations, requestId, retryAfterMs }, { cause });
}
