import { credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { ActuatorCommandServiceClient } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceClient } from '../../src/gen/connection/connection_service';
import { DigitalDeviceServiceClient } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { AccessControlServiceClient } from '../../src/gen/organization_access_control/access_control_service';
import { SensorQueryServiceClient } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { SensorTemplateServiceClient } from '../../src/gen/sensor_template/v2/sensor_template_service';

/** An API key and its organization. */
export interface Key {
  readonly organizationId: string;
  readonly apiKey: string;
}

/** Clients of every service that this program uses, on a separate connection. */
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

/** Creates the clients; the first call connects to the server. */
export function openClients(address: string, key: Key): Clients {
  const metadata = new Metadata();
  metadata.set('x-api-key', key.apiKey);
  metadata.set('x-organization-id', key.organizationId);
  const connect = [
    address,
    credentials.createInsecure(),
    { 'grpc.enable_retries': 0, 'grpc.use_local_subchannel_pool': 1 },
  ] as const;
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

/** Makes a unary call and returns its response as a promise. */
export async function callUnary<Response>(
  startCall: (callback: (error: ServiceError | null, response: Response) => void) => void,
): Promise<Response> {
  return await new Promise((resolve, reject) =>
    startCall((error, response) => (error ? reject(error) : resolve(response))),
  );
}

/**
 * Whether a call failed because the server was killed. A truncated response may be reported as INTERNAL or UNKNOWN. Any
 * other status is a bug of this program or of the server.
 */
export function isServerGone(error: unknown): boolean {
  return [status.UNAVAILABLE, status.INTERNAL, status.CANCELLED, status.UNKNOWN].includes((error as ServiceError).code);
}
