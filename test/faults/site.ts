import { credentials } from '@grpc/grpc-js';
import { type RunningServer, startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { type Clock, systemClock } from '../../src/kernel/clock';
import { GatewayClient } from '../connections/gatewayClient';
import { MemoryLog } from '../support/edge';
import { HttpClient, type HttpAnswer, type JsonObject } from '../support/http';

/** The complete server on a data folder that a test harms, with a client of its first organization. */
export interface Site {
  readonly app: RunningServer;
  readonly log: MemoryLog;
  readonly key: SiteKey;
  /** Calls a method over HTTP: `call('digitaldevice.v2.DigitalDeviceService/GetDigitalDevice', { id })`. */
  call(method: string, fields: JsonObject): Promise<HttpAnswer>;
  /** Opens a gateway stream that has not sent its hello yet. */
  openGateway(): GatewayClient;
  /** Creates a gateway connection with a device `device-1` and a command without parameters. */
  createTarget(): Promise<Target>;
  stop(): Promise<void>;
}

/** The key of the first start. */
export interface SiteKey {
  readonly organizationId: string;
  readonly text: string;
}

/** A device that can execute a command. */
export interface Target {
  readonly connectionId: string;
  readonly deviceId: string;
  readonly commandId: string;
}

/** Options for starting a site. */
export interface SiteOptions {
  readonly flags?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** Given if the folder was used before. */
  readonly key?: SiteKey;
}

export const DEVICES = 'digitaldevice.v2.DigitalDeviceService';
export const COMMANDS = 'actuator_command.v2.ActuatorCommandService';

/** Starts the server on loopback, without TLS. */
export async function startSite(
  dataDir: string,
  { flags = {}, clock = systemClock, key }: SiteOptions = {},
): Promise<Site> {
  const log = new MemoryLog();
  const defaults = {
    'data.dir': dataDir,
    'grpc.listen': '127.0.0.1:0',
    'http.listen': '127.0.0.1:0',
    'metrics.listen': 'off',
    'tls.mode': 'off',
    'database.diskReserveMib': '0',
    'limits.shutdownTimeoutMs': '1000',
  };
  const { config } = loadConfig({ file: false, env: {}, flags: { ...defaults, ...flags } });
  const app = await startServer(config, { log, clock });
  const siteKey =
    key ??
    (app.bootstrapped ? { organizationId: app.bootstrapped.organization.id, text: app.bootstrapped.key } : undefined);
  if (!siteKey) throw new Error('the folder was used before: give the key of then');
  const http = new HttpClient(app.addresses.http ?? '', undefined, {
    'x-api-key': siteKey.text,
    'x-organization-id': siteKey.organizationId,
  });
  const gateways = new GatewayServiceClient(app.addresses.grpc, credentials.createInsecure());
  const call = async (method: string, fields: JsonObject): Promise<HttpAnswer> =>
    await http.send('POST', `/${method}`, { body: fields });
  return {
    app,
    log,
    key: siteKey,
    call,
    openGateway: () => new GatewayClient(gateways, siteKey.text, siteKey.organizationId),
    createTarget: async () => await createTarget(call),
    stop: async () => {
      http.close();
      gateways.close();
      await app.stop();
    },
  };
}

async function createTarget(call: Site['call']): Promise<Target> {
  const connectionId = getId(
    await call('connection.ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Gateway' }),
  );
  const deviceId = getId(
    await call(`${DEVICES}/CreateDigitalDevice`, {
      name: 'Valve',
      physicalDevice: { connectionId, clientDeviceId: 'device-1' },
    }),
  );
  const command = {
    name: 'Open',
    mode: 'direct',
    verificationStrategy: 'no_verification',
    directPayload: '{"open": true}',
  };
  return {
    connectionId,
    deviceId,
    commandId: getId(await call(`${COMMANDS}/CreateCommand`, { id: deviceId, command })),
  };
}

/** Returns the ID of the created record. */
export function getId({ status, json }: HttpAnswer): string {
  if (status >= 300) throw new Error(`${status}: ${JSON.stringify(json)}`);
  return String(json['id']);
}

/** Returns why a call failed, or an empty text if it succeeded. */
export function getReason({ json }: HttpAnswer): string {
  return (json['error'] as { code?: string } | undefined)?.code ?? '';
}
