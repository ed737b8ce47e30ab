import { credentials } from '@grpc/grpc-js';
import { type App, startApp } from '../../src/app';
import { loadConfig } from '../../src/config';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { type Clock, systemClock } from '../../src/kernel/clock';
import { GatewayClient } from '../connections/gatewayClient';
import { MemoryLog } from '../support/edge';
import { HttpClient, type HttpAnswer, type JsonObject } from '../support/http';

/** The whole server on a data folder that a test harms, and a client of its first organization. */
export interface Site {
  readonly app: App;
  readonly log: MemoryLog;
  readonly key: SiteKey;
  /** Calls a method over HTTP: `call('digitaldevice.v2.DigitalDeviceService/GetDigitalDevice', { id })`. */
  call(method: string, fields: JsonObject): Promise<HttpAnswer>;
  /** A stream of a gateway that was not said hello yet. */
  gateway(): GatewayClient;
  /** A gateway connection with a device `device-1` and a command without parameters. */
  target(): Promise<Target>;
  stop(): Promise<void>;
}

/** The key of the first start. */
export interface SiteKey {
  readonly organizationId: string;
  readonly text: string;
}

/** What can be told to do something. */
export interface Target {
  readonly connectionId: string;
  readonly deviceId: string;
  readonly commandId: string;
}

/** How a site is started. */
export interface SiteOptions {
  readonly flags?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** Where the folder was used before. */
  readonly key?: SiteKey;
}

export const DEVICES = 'digitaldevice.v2.DigitalDeviceService';
export const COMMANDS = 'actuator_command.v2.ActuatorCommandService';

/** Starts it, without TLS, on loopback. */
export async function startSite(dataDir: string, { flags = {}, clock = systemClock, key }: SiteOptions = {}): Promise<Site> {
  const log = new MemoryLog();
  const usual = { 'data.dir': dataDir, 'grpc.listen': '127.0.0.1:0', 'http.listen': '127.0.0.1:0', 'metrics.listen': 'off', 'tls.mode': 'off', 'database.reserveMib': '0', 'limits.stopMs': '1000' };
  const { config } = loadConfig({ file: false, env: {}, flags: { ...usual, ...flags } });
  const app = await startApp(config, { log, clock });
  const made = key ?? (app.bootstrapped ? { organizationId: app.bootstrapped.organization.id, text: app.bootstrapped.key } : undefined);
  if (!made) throw new Error('the folder was used before: give the key of then');
  const http = new HttpClient(app.addresses.http ?? '', undefined, { 'x-api-key': made.text, 'x-organization-id': made.organizationId });
  const gateways = new GatewayServiceClient(app.addresses.grpc, credentials.createInsecure());
  const call = async (method: string, fields: JsonObject): Promise<HttpAnswer> => await http.send('POST', `/${method}`, { body: fields });
  return {
    app,
    log,
    key: made,
    call,
    gateway: () => new GatewayClient(gateways, made.text, made.organizationId),
    target: async () => await makeTarget(call),
    stop: async () => {
      http.close();
      gateways.close();
      await app.stop();
    },
  };
}

async function makeTarget(call: Site['call']): Promise<Target> {
  const connectionId = idOf(await call('connection.ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Gateway' }));
  const deviceId = idOf(await call(`${DEVICES}/CreateDigitalDevice`, { name: 'Valve', physicalDevice: { connectionId, clientDeviceId: 'device-1' } }));
  const command = { name: 'Open', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{"open": true}' };
  return { connectionId, deviceId, commandId: idOf(await call(`${COMMANDS}/CreateCommand`, { id: deviceId, command })) };
}

/** The id of what was created. */
export function idOf({ status, json }: HttpAnswer): string {
  if (status >= 300) throw new Error(`${status}: ${JSON.stringify(json)}`);
  return String(json['id']);
}

/** Why a call failed; empty: it did not. */
export function reasonOf({ json }: HttpAnswer): string {
  return (json['error'] as { code?: string } | undefined)?.code ?? '';
}
