import { credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { ActuatorCommandServiceClient } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceClient } from '../../src/gen/connection/connection_service';
import { DigitalDeviceServiceClient } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { AccessControlServiceClient } from '../../src/gen/organization_access_control/access_control_service';
import { SensorQueryServiceClient } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { SensorTemplateServiceClient } from '../../src/gen/sensor_template/v2/sensor_template_service';

/** A key and the organization that it works in. */
export interface Key {
  readonly organizationId: string;
  readonly apiKey: string;
}

/** Clients of every service that this program uses, on a connection of their own. */
export interface Clients {
  readonly devices: DigitalDeviceServiceClient;
  readonly commands: ActuatorCommandServiceClient;
  readonly connections: ConnectionServiceClient;
  readonly templates: SensorTemplateServiceClient;
  readonly gateway: GatewayServiceClient;
  readonly readings: SensorQueryServiceClient;
  readonly access: AccessControlServiceClient;
  readonly metadata: Metadata;
  close(): void;
}

/** Opens them; the server is asked at the first call. */
export function openClients(address: string, key: Key): Clients {
  const metadata = new Metadata();
  metadata.set('x-api-key', key.apiKey);
  metadata.set('x-organization-id', key.organizationId);
  const connect = [address, credentials.createInsecure(), { 'grpc.enable_retries': 0, 'grpc.use_local_subchannel_pool': 1 }] as const;
  const all = {
    devices: new DigitalDeviceServiceClient(...connect),
    commands: new ActuatorCommandServiceClient(...connect),
    connections: new ConnectionServiceClient(...connect),
    templates: new SensorTemplateServiceClient(...connect),
    gateway: new GatewayServiceClient(...connect),
    readings: new SensorQueryServiceClient(...connect),
    access: new AccessControlServiceClient(...connect),
  };
  return { ...all, metadata, close: () => Object.values(all).forEach((client) => client.close()) };
}

/** One call as a promise. */
export async function answer<Answer>(ask: (answered: (error: ServiceError | null, answer: Answer) => void) => void): Promise<Answer> {
  return await new Promise((resolve, reject) => ask((error, given) => (error ? reject(error) : resolve(given))));
}

/** Whether a call failed because the server was killed; a half answer may look like a fault of its own. Anything else is a fault of this program or of the server. */
export function isGone(error: unknown): boolean {
  return [status.UNAVAILABLE, status.INTERNAL, status.CANCELLED, status.UNKNOWN].includes((error as ServiceError).code);
}
