import { randomUUID } from 'node:crypto';
import { Channel } from './calls/channel';
import { checkClientOptions } from './calls/checkOptions';
import { registerCloseSignal } from './calls/closeSignals';
import type { ServiceClient } from './calls/definitions';
import { createServiceClient } from './calls/methods';
import { ActuatorCommandServiceDefinition } from './gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceDefinition } from './gen/connection/connection_service';
import { ConnectorServiceDefinition } from './gen/connector/connector_service';
import { DashboardServiceDefinition } from './gen/dashboard/v2/dashboard_service';
import { DigitalDeviceServiceDefinition } from './gen/digitaldevice/v2/digital_device_service';
import { HealthDefinition } from './gen/grpc/health/v1/health';
import { MediaServiceDefinition } from './gen/media/v1/media_service';
import { AccessControlServiceDefinition } from './gen/organization_access_control/access_control_service';
import { OrganizationsServiceDefinition } from './gen/organizations_service';
import { SensorTemplateServiceDefinition } from './gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceDefinition } from './gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceDefinition } from './gen/userprofile/user_profile_service';
import { WidgetServiceDefinition } from './gen/widget/v2/widget_service';
import type { ClientOptions } from './options';
import { PlantroomError } from './plantroomError';

/** The services of the client. Named types, so that an editor shows the documentation of each method. */
interface Definitions {
  /** Digital devices and their sensors. */
  readonly devices: DigitalDeviceServiceDefinition;
  /** Commands of devices and their executions. */
  readonly commands: ActuatorCommandServiceDefinition;
  /** Sensor templates: what sensors measure. */
  readonly sensorTemplates: SensorTemplateServiceDefinition;
  /** Connections to gateways, MQTT brokers and ChirpStack servers. */
  readonly connections: ConnectionServiceDefinition;
  /** Connectors, the types of connections. */
  readonly connectors: ConnectorServiceDefinition;
  /** Sensor readings. */
  readonly readings: SensorQueryServiceDefinition;
  /** Images. */
  readonly media: MediaServiceDefinition;
  /** Dashboards. */
  readonly dashboards: DashboardServiceDefinition;
  /** Widgets of dashboards, and the kinds of widgets. */
  readonly widgets: WidgetServiceDefinition;
  /** Organizations. */
  readonly organizations: OrganizationsServiceDefinition;
  /** API keys, members, roles and the audit trail. */
  readonly access: AccessControlServiceDefinition;
  /** The profile of the key's owner. */
  readonly userProfile: UserProfileServiceDefinition;
  /** The health of the server. */
  readonly health: HealthDefinition;
}

/** The definitions of the services. */
export const SERVICES: Definitions = {
  devices: DigitalDeviceServiceDefinition,
  commands: ActuatorCommandServiceDefinition,
  sensorTemplates: SensorTemplateServiceDefinition,
  connections: ConnectionServiceDefinition,
  connectors: ConnectorServiceDefinition,
  readings: SensorQueryServiceDefinition,
  media: MediaServiceDefinition,
  dashboards: DashboardServiceDefinition,
  widgets: WidgetServiceDefinition,
  organizations: OrganizationsServiceDefinition,
  access: AccessControlServiceDefinition,
  userProfile: UserProfileServiceDefinition,
  health: HealthDefinition,
};

type Services = { readonly [Name in keyof Definitions]: ServiceClient<Definitions[Name]> };

/**
 * A client of one server and one organization. All methods can be used concurrently; one client per process is enough.
 */
export interface PlantroomClient extends Services {
  /** Cancels all running calls with `CANCELLED` and reason `client_closed`, and closes the connection. */
  close(): void;
}

/**
 * Creates a client. It connects on the first call and reconnects automatically. A call waits for an unreachable server
 * as long as the pauses of `retry` last together (default 6 s), then fails with `UNAVAILABLE`. A stream of responses
 * does not wait; use watchExecutions and the similar functions, which reopen the stream.
 *
 * A call that was interrupted is repeated only if that is safe: reads; methods that create, which get an idempotency
 * key; and ExecuteCommand, which gets a trigger id if the request has none. If ExecuteCommand fails,
 * `metadata.trigger_id` of the error is this id: use it to repeat the call. Throws PlantroomError `options_invalid`,
 * which lists every invalid option.
 */
export function createPlantroomClient(options: ClientOptions): PlantroomClient {
  checkClientOptions(options);
  const channel = new Channel(options, Object.values(SERVICES));
  const services = Object.fromEntries(
    Object.entries(SERVICES).map(([name, definition]) => [name, createServiceClient(channel, definition)]),
  ) as unknown as Services;
  const client = { ...services, commands: addTriggerIds(services.commands) };
  for (const service of Object.values(client)) registerCloseSignal(service, channel.closed);
  return { ...client, close: () => channel.close() };
}

/** Adds a trigger id to ExecuteCommand, so that the server executes a repeated request only once. */
function addTriggerIds(commands: Services['commands']): Services['commands'] {
  return {
    ...commands,
    executeCommand: async (request, options) => {
      const triggerId = request.triggerId || options?.idempotencyKey || randomUUID();
      try {
        return await commands.executeCommand({ ...request, triggerId }, options);
      } catch (error) {
        throw error instanceof PlantroomError ? addTriggerId(error, triggerId) : error;
      }
    },
  };
}

/** Returns the same error with the trigger id in its metadata, so that the caller can repeat the request. */
function addTriggerId(
  { message, status, reason, metadata, violations, requestId, retryAfterMs, cause }: PlantroomError,
  triggerId: string,
): PlantroomError {
  return new PlantroomError(
    message,
    { status, reason, metadata: { ...metadata, trigger_id: triggerId }, violations, requestId, retryAfterMs },
    { cause },
  );
}
