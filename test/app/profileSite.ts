import { mkdtempSync, rmSync } from 'node:fs';
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

/** The imported profile: a valve of an invented vendor. Each edition reads and writes different bytes. */
export const VALVE = { brand: 'northmoor', model: 'valve-2', band: 'EU863-870', id: 'northmoor/valve-2/2.0/EU868' };

/** The codec of an edition: the edition number is the first byte of what it encodes, and part of what it decodes. */
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

/** A folder with the checkout of this edition. */
export function valveCheckout(folder: string, edition: number): string {
  return lorawanDevicesFolder(folder, {
    northmoor: {
      name: 'Northmoor Instruments',
      devices: {
        'valve-2': {
          name: 'Valve 2',
          description: 'A valve with a water meter',
          firmwareVersions: [
            {
              version: '2.0',
              numeric: 1,
              profiles: { 'EU863-870': { id: 'eu868', codec: 'valve-codec' }, AS923: { id: 'as923' } },
            },
          ],
        },
      },
      profiles: {
        eu868: yamlProfile(),
        as923: yamlProfile({ macVersion: '1.0.4', regionalParametersVersion: 'RP002-1.0.3' }),
      },
      codecs: { 'valve-codec': { uplinkDecoder: { fileName: 'valve.js' }, downlinkEncoder: { fileName: 'valve.js' } } },
      files: { 'valve.js': valveCodec(edition) },
    },
  });
}

/**
 * A device that is decoded by a profile, with a sensor for its position and one for its litres, and a command that
 * moves it.
 */
export interface ProfiledValve {
  readonly id: string;
  readonly connectionId: string;
  readonly clientDeviceId: string;
  readonly valve: string;
  readonly litres: string;
  readonly commandId: string;
}

/** A complete server, the command line, and what an organization does with profiles. */
export class ProfileSite {
  /** For checkouts; deleted at the end. */
  readonly folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
  readonly http: HttpClient;
  readonly devices: DigitalDeviceServiceClient;
  private readonly gateways: GatewayServiceClient;

  private constructor(readonly server: TestApp) {
    const { app, key, organizationId } = server;
    this.http = new HttpClient(app.addresses.http as string, app.ca, as(key, organizationId));
    this.devices = server.client(DigitalDeviceServiceClient);
    this.gateways = server.client(GatewayServiceClient);
  }

  static async start(engine: TestEngine): Promise<ProfileSite> {
    return new ProfileSite(await startTestApp(engine));
  }

  /** The headers of the first organization for every call. */
  get headers(): Record<string, string> {
    return as(this.server.key, this.server.organizationId);
  }

  /** Runs `plantroom profiles …` next to the server, with a separate database connection like a separate process. */
  async profiles(...args: string[]): Promise<Ended> {
    const { dataDir, url } = this.server.database;
    return await plantroomHere([
      'profiles',
      ...args,
      '--data-dir',
      dataDir,
      ...(url === '' ? [] : ['--database-url', url]),
    ]);
  }

  /** Imports an edition; returns the counts that the command line printed. */
  async importEdition(edition: number): Promise<JsonObject> {
    const { code, stdout, stderr } = await this.profiles(
      'import',
      valveCheckout(join(this.folder, String(edition)), edition),
      '--json',
    );
    if (code !== 0) throw new Error(`the import ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as JsonObject;
  }

  /** Creates a connection; returns its id. */
  async connection(connectorId: string, configuration: JsonObject = {}): Promise<string> {
    return (
      await this.http.call<{ id: string }>('POST', '/api/v2/connections', {
        connectorId,
        name: `To ${connectorId}`,
        configuration,
      })
    ).id;
  }

  /** Attaches gateway software. */
  async gateway(connectionId: string): Promise<TestGateway> {
    return await TestGateway.attach({ gateways: this.gateways }, { connectionId, headers: this.headers });
  }

  /**
   * Binds a valve with the profile and variables, maps what the profile decodes, and creates a command that uses its
   * encoder.
   */
  async valve(connectionId: string, clientDeviceId: string): Promise<ProfiledValve> {
    const configuration = { profileId: VALVE.id, variables: { litresPerPulse: '10', seconds: '30' } };
    const { id } = await this.http.call<{ id: string }>('POST', '/api/v2/devices', {
      name: `Valve ${clientDeviceId}`,
      physicalDevice: { connectionId, clientDeviceId, configuration },
    });
    const sensorTemplateIds = [await this.template('string'), await this.template('number')];
    const { sensors } = await this.http.call<{ sensors: { id: string }[] }>('POST', `/api/v2/devices/${id}/sensors`, {
      sensorTemplateIds,
    });
    const [valve = '', litres = ''] = sensors.map((sensor) => sensor.id);
    await this.http.call('PUT', `/api/v2/devices/${id}/sensor-mappings`, {
      mappings: [
        { sensorId: valve, sourcePath: 'object.valve' },
        { sensorId: litres, sourcePath: 'object.litres' },
      ],
    });
    const command = {
      name: 'Move',
      mode: 'encoded',
      verificationStrategy: 'wait_next_uplink',
      paramsSchema: { valve: { type: 'string' } },
      encoderProfileId: VALVE.id,
      expectedSensorStates: [{ sensorId: valve, valueTemplate: '{{params.valve}}' }],
      convergenceTimeout: 3600,
    };
    const { id: commandId } = await this.http.call<{ id: string }>('POST', `/api/v2/devices/${id}/commands`, {
      command,
    });
    return { id, connectionId, clientDeviceId, valve, litres, commandId };
  }

  private async template(valueType: string): Promise<string> {
    const { normalizedKeys } = await this.http.call<{ normalizedKeys: { id: string }[] }>(
      'GET',
      '/api/v2/devices/sensor-templates/normalized-keys',
    );
    return (
      await this.http.call<{ id: string }>('POST', '/api/v2/devices/sensor-templates', {
        keyNameId: normalizedKeys[0]?.id,
        sensorType: `of ${valueType}`,
        valueType,
      })
    ).id;
  }

  /** Returns the last received values of a device, by path. */
  async keys({ id, connectionId, clientDeviceId }: ProfiledValve): Promise<JsonObject> {
    const { connectorKeys } = await this.http.call<{ connectorKeys: { name: string; value: { value: unknown } }[] }>(
      'GET',
      `/api/v2/devices/${id}/connector-keys?connectionId=${connectionId}&clientDeviceId=${clientDeviceId}`,
    );
    return Object.fromEntries(connectorKeys.map(({ name, value }) => [name, value.value]));
  }

  /** Returns the values of the sensors of a valve. */
  async shows({ id, valve, litres }: ProfiledValve): Promise<readonly unknown[]> {
    const { sensors } = await this.http.call<{
      sensors: { sensorId: string; reading?: { text?: string; number?: number } }[];
    }>('GET', `/api/v2/readings:latest?deviceIds=${id}`);
    const shown = new Map(sensors.map(({ sensorId, reading }) => [sensorId, reading]));
    return [shown.get(valve)?.text, shown.get(litres)?.number];
  }

  /** Moves a valve; returns the id of the execution. */
  async move({ id, commandId }: ProfiledValve, valve: string): Promise<string> {
    return (
      await this.http.call<{ executionId: string }>('POST', `/api/v2/devices/${id}/actuator-executions`, {
        commandId,
        params: { valve },
      })
    ).executionId;
  }

  /** Returns the state of an execution. */
  async state(executionId: string): Promise<unknown> {
    return (await this.http.call('GET', `/api/v2/actuator-executions/${executionId}`))['state'];
  }

  async stop(): Promise<void> {
    this.http.close();
    await this.server.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
