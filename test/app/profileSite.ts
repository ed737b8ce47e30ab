import { credentials } from '@grpc/grpc-js';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DigitalDeviceServiceClient } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { TestGateway } from '../executions/testGateway';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';
import type { TestEngine } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';
import { lorawanDevicesFolder, yamlProfile } from '../support/profileFolders';
import { as, startTestApp, type TestApp } from '../support/testApp';

/** What the tests import: a valve of an invented vendor, of which each edition reads and writes other bytes. */
export const VALVE = { brand: 'northmoor', model: 'valve-2', band: 'EU863-870', id: 'northmoor/valve-2/2.0/EU868' };

/** The codec of an edition: its number is the first byte of what it encodes, and shows in what it decodes. */
export function valveCodec(edition: number): string {
  return `var STATES = ['closed', 'open'];
function decodeUplink(input) {
  return { data: { valve: STATES[input.bytes[0]], litres: input.bytes[1] * Number(input.variables.litresPerPulse || 1), edition: ${edition} } };
}
function encodeDownlink(input) {
  return { fPort: 2, bytes: [${edition}, STATES.indexOf(input.data.valve), Number(input.variables.seconds || 0)] };
}
`;
}

/** A folder that holds the checkout with this edition. */
export function valveCheckout(folder: string, edition: number): string {
  return lorawanDevicesFolder(folder, {
    northmoor: {
      name: 'Northmoor Instruments',
      devices: { 'valve-2': { name: 'Valve 2', description: 'A valve with a water meter', firmwareVersions: [{ version: '2.0', numeric: 1, profiles: { 'EU863-870': { id: 'eu868', codec: 'valve-codec' }, AS923: { id: 'as923' } } }] } },
      profiles: { eu868: yamlProfile(), as923: yamlProfile({ macVersion: '1.0.4', regionalParametersVersion: 'RP002-1.0.3' }) },
      codecs: { 'valve-codec': { uplinkDecoder: { fileName: 'valve.js' }, downlinkEncoder: { fileName: 'valve.js' } } },
      files: { 'valve.js': valveCodec(edition) },
    },
  });
}

/** A device that is decoded by a profile, with a sensor of its valve and one of its litres, and a command that moves it. */
export interface ProfiledValve {
  readonly id: string;
  readonly connectionId: string;
  readonly clientDeviceId: string;
  readonly valve: string;
  readonly litres: string;
  readonly commandId: string;
}

/** A whole server, the command line beside it, and what an organization does with profiles. */
export class ProfileSite {
  /** For checkouts; removed at the end. */
  readonly folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
  private readonly address: string;
  private readonly trusted: ReturnType<typeof credentials.createSsl>;
  readonly http: HttpClient;
  readonly devices: DigitalDeviceServiceClient;
  private readonly gateways: GatewayServiceClient;

  private constructor(readonly server: TestApp) {
    const { app, key, organizationId } = server;
    this.address = app.addresses.grpc.replace('127.0.0.1', 'localhost');
    this.trusted = credentials.createSsl(readFileSync(app.ca as string));
    this.http = new HttpClient(app.addresses.http as string, app.ca, as(key, organizationId));
    this.devices = new DigitalDeviceServiceClient(this.address, this.trusted);
    this.gateways = new GatewayServiceClient(this.address, this.trusted);
  }

  static async start(engine: TestEngine): Promise<ProfileSite> {
    return new ProfileSite(await startTestApp(engine));
  }

  /** What the organization of the first start sends with every call. */
  get headers(): Record<string, string> {
    return as(this.server.key, this.server.organizationId);
  }

  /** Runs `plantroom profiles …` beside the server, with a database connection of its own as the process would have. */
  async profiles(...args: string[]): Promise<Ended> {
    const { dataDir, url } = this.server.database;
    return await plantroomHere(['profiles', ...args, '--data-dir', dataDir, ...(url === '' ? [] : ['--database-url', url])]);
  }

  /** Imports an edition; answers what the command line counted. */
  async importEdition(edition: number): Promise<JsonObject> {
    const { code, stdout, stderr } = await this.profiles('import', valveCheckout(join(this.folder, String(edition)), edition), '--json');
    if (code !== 0) throw new Error(`the import ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as JsonObject;
  }

  /** One call that has to succeed. */
  async ask<Answer = JsonObject>(verb: string, path: string, body?: unknown): Promise<Answer> {
    const { status, json } = await this.http.send(verb, path, body === undefined ? {} : { body });
    if (status >= 300) throw new Error(`${verb} ${path}: ${status} ${JSON.stringify(json)}`);
    return json as Answer;
  }

  /** Makes a connection; its id. */
  async connection(connectorId: string, configuration: JsonObject = {}): Promise<string> {
    return (await this.ask<{ id: string }>('POST', '/api/v2/connections', { connectorId, name: `To ${connectorId}`, configuration })).id;
  }

  /** Attaches gateway software. */
  async gateway(connectionId: string): Promise<TestGateway> {
    return await TestGateway.attach({ gateways: this.gateways }, { connectionId, headers: this.headers });
  }

  /** Binds a valve with the profile and variables, maps what the profile decodes, and gives it a command that takes its encoder from there. */
  async valve(connectionId: string, clientDeviceId: string): Promise<ProfiledValve> {
    const configuration = { profileId: VALVE.id, variables: { litresPerPulse: '10', seconds: '30' } };
    const { id } = await this.ask<{ id: string }>('POST', '/api/v2/devices', { name: `Valve ${clientDeviceId}`, physicalDevice: { connectionId, clientDeviceId, configuration } });
    const sensorTemplateIds = [await this.template('string'), await this.template('number')];
    const { sensors } = await this.ask<{ sensors: { id: string }[] }>('POST', `/api/v2/devices/${id}/sensors`, { sensorTemplateIds });
    const [valve = '', litres = ''] = sensors.map((sensor) => sensor.id);
    await this.ask('PUT', `/api/v2/devices/${id}/sensor-mappings`, { mappings: [{ sensorId: valve, sourcePath: 'object.valve' }, { sensorId: litres, sourcePath: 'object.litres' }] });
    const command = {
      name: 'Move',
      mode: 'encoded',
      verificationStrategy: 'wait_next_uplink',
      paramsSchema: { valve: { type: 'string' } },
      encoderProfileId: VALVE.id,
      expectedSensorStates: [{ sensorId: valve, valueTemplate: '{{params.valve}}' }],
      convergenceTimeout: 3600,
    };
    const { id: commandId } = await this.ask<{ id: string }>('POST', `/api/v2/devices/${id}/commands`, { command });
    return { id, connectionId, clientDeviceId, valve, litres, commandId };
  }

  private async template(valueType: string): Promise<string> {
    const { normalizedKeys } = await this.ask<{ normalizedKeys: { id: string }[] }>('GET', '/api/v2/devices/sensor-templates/normalized-keys');
    return (await this.ask<{ id: string }>('POST', '/api/v2/devices/sensor-templates', { keyNameId: normalizedKeys[0]?.id, sensorType: `of ${valueType}`, valueType })).id;
  }

  /** What was last heard of a device, by path. */
  async keys({ id, connectionId, clientDeviceId }: ProfiledValve): Promise<JsonObject> {
    const { connectorKeys } = await this.ask<{ connectorKeys: { name: string; value: { value: unknown } }[] }>('GET', `/api/v2/devices/${id}/connector-keys?connectionId=${connectionId}&clientDeviceId=${clientDeviceId}`);
    return Object.fromEntries(connectorKeys.map(({ name, value }) => [name, value.value]));
  }

  /** What the sensors of a valve show. */
  async shows({ id, valve, litres }: ProfiledValve): Promise<readonly unknown[]> {
    const { sensors } = await this.ask<{ sensors: { sensorId: string; reading?: { text?: string; number?: number } }[] }>('GET', `/api/v2/readings:latest?deviceIds=${id}`);
    const shown = new Map(sensors.map(({ sensorId, reading }) => [sensorId, reading]));
    return [shown.get(valve)?.text, shown.get(litres)?.number];
  }

  /** Moves a valve; the id of the execution. */
  async move({ id, commandId }: ProfiledValve, valve: string): Promise<string> {
    return (await this.ask<{ executionId: string }>('POST', `/api/v2/devices/${id}/actuator-executions`, { commandId, params: { valve } })).executionId;
  }

  /** In which state an execution is. */
  async state(executionId: string): Promise<unknown> {
    return (await this.ask('GET', `/api/v2/actuator-executions/${executionId}`))['state'];
  }

  /** Asks until it is so. */
  async until<T>(ask: () => Promise<T>, isSo: (answer: T) => boolean): Promise<T> {
    for (;;) {
      const answer = await ask();
      if (isSo(answer)) return answer;
    }
  }

  async stop(): Promise<void> {
    this.http.close();
    for (const client of [this.devices, this.gateways]) client.close();
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
