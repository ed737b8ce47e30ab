import { randomUUID } from 'node:crypto';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { SCOPES } from '../../src/kernel/scopes';
import { HttpClient, type HttpAnswer, type JsonObject } from '../support/http';
import type { TestEngine } from '../support/engines';
import { as, descriptors, startTestApp, type Outcome, type TestApp } from '../support/testApp';

export const DASHBOARDS = '/dashboard.v2.DashboardService';
export const WIDGETS = '/widget.v2.WidgetService';
const EDITOR_SCOPES = ['users:read', 'dashboards:read', 'dashboards:write', 'devices:read'];
const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const ACCESS = '/organization_access_control.AccessControlService';
const TEMPLATES = '/sensor_template.v2.SensorTemplateService';

/** A dashboard, as a client reads it. */
export interface DashboardJson {
  readonly id: string;
  readonly name: string;
  readonly revision: number;
  readonly etag: string;
  readonly ownerUserId: string;
  readonly visibility: string;
  readonly widgetCount: number;
  readonly content: {
    readonly widgets: readonly WidgetJson[];
    readonly layout: readonly PlaceJson[];
    readonly variables: readonly JsonObject[];
    readonly lastSeconds?: number;
  };
}

/** A widget, as a client reads it. */
export interface WidgetJson {
  readonly id: string;
  readonly kind: string;
  readonly title: string;
  readonly options: JsonObject;
  readonly series: readonly JsonObject[];
  readonly etag: string;
  readonly unknownKind: boolean;
}

/** The place of a widget, as a client reads it. */
export interface PlaceJson {
  readonly widgetId: string;
  readonly column: number;
  readonly row: number;
  readonly width: number;
  readonly height: number;
}

/** A device with its sensors, in the order of the requested keys. */
export interface TestDevice {
  readonly id: string;
  readonly sensorIds: readonly string[];
}

/** The calls of one user with one key. */
export class DashboardUser {
  constructor(
    readonly organizationId: string,
    readonly userId: string,
    private readonly http: HttpClient,
    private readonly sendGrpc: (path: string, message: Uint8Array) => Promise<Outcome>,
  ) {}

  /** Calls a method by its gRPC path, as JSON. */
  async try(path: string, body: JsonObject, headers: Readonly<Record<string, string>> = {}): Promise<HttpAnswer> {
    return await this.http.send('POST', path, { body, headers });
  }

  /** Calls a method over gRPC with these bytes. */
  async sendBytes(path: string, message: Uint8Array): Promise<Outcome> {
    return await this.sendGrpc(path, message);
  }

  /** Sends a request to a route. */
  async send(verb: string, path: string, body?: JsonObject): Promise<HttpAnswer> {
    return await this.http.send(verb, path, body === undefined ? {} : { body });
  }

  /** Same as `try`, for a call that must succeed; returns its JSON. */
  async call<Result = JsonObject>(path: string, body: JsonObject): Promise<Result> {
    const { status, json, body: text } = await this.try(path, body);
    if (status >= 300) throw new Error(`${path}: ${status} ${text.toString()}`);
    return json as Result;
  }

  /** Same as `try`, for a call that must fail; returns the reason, the status and the message. */
  async fail(path: string, body: JsonObject): Promise<{ code: string; status: number; message: string }> {
    const { status, json } = await this.try(path, body);
    const { code, message } = (json['error'] ?? {}) as { code: string; message: string };
    return { code, status, message };
  }

  async createDashboard(fields: JsonObject = {}): Promise<DashboardJson> {
    return await this.call<DashboardJson>(`${DASHBOARDS}/CreateDashboard`, { name: `D ${randomUUID()}`, ...fields });
  }

  async getDashboard(id: string): Promise<DashboardJson> {
    return await this.call<DashboardJson>(`${DASHBOARDS}/GetDashboard`, { id });
  }

  /** Creates a device with a sensor for each key. */
  async createDevice(name: string, keyNames: readonly string[], physicalDevice?: JsonObject): Promise<TestDevice> {
    const { id } = await this.call<{ id: string }>(`${DEVICES}/CreateDigitalDevice`, {
      name,
      ...(physicalDevice && { physicalDevice }),
    });
    if (keyNames.length === 0) return { id, sensorIds: [] };
    const { sensorTemplates } = await this.call<{ sensorTemplates: { id: string; keyName: string }[] }>(
      `${TEMPLATES}/ListSensorTemplates`,
      {},
    );
    const sensorTemplateIds = keyNames.map(
      (keyName) => sensorTemplates.find((template) => template.keyName === keyName)?.id ?? keyName,
    );
    const device = await this.call<{ sensors: { id: string }[] }>(`${DEVICES}/AddSensorsToDevice`, {
      id,
      sensorTemplateIds,
    });
    return { id, sensorIds: device.sensors.map((sensor) => sensor.id) };
  }

  /** Creates a command of a device. */
  async createCommand(deviceId: string, name: string): Promise<void> {
    await this.call('/actuator_command.v2.ActuatorCommandService/CreateCommand', {
      id: deviceId,
      command: { name, mode: 'direct', directPayload: '{"on": true}', verificationStrategy: 'no_verification' },
    });
  }

  /** Creates a connection of a gateway. */
  async createConnection(name: string): Promise<string> {
    const { id } = await this.call<{ id: string }>('/connection.ConnectionService/CreateConnection', {
      connectorId: 'gateway',
      name,
    });
    return id;
  }

  close(): void {
    this.http.close();
  }
}

/** A whole server, and users of it. */
export class DashboardFixture {
  private readonly users: DashboardUser[] = [];

  private constructor(
    readonly server: TestApp,
    /** The owner of the first organization. */
    readonly owner: DashboardUser,
  ) {
    this.users.push(owner);
  }

  static async start(engine: TestEngine): Promise<DashboardFixture> {
    const server = await startTestApp(engine);
    return new DashboardFixture(server, await connect(server, server.organizationId, server.key));
  }

  /** Creates an organization and returns its owner. */
  async organization(name: string): Promise<DashboardUser> {
    const organizationId = await this.server.organization(name);
    const { key } = await this.server.newKey(organizationId);
    return this.register(await connect(this.server, organizationId, key));
  }

  /** Adds a member with a role to the first organization. */
  async member(roleId: string): Promise<DashboardUser> {
    const { organizationId } = this.server;
    const { userId } = await this.owner.call<{ userId: string }>(`${ACCESS}/AddMember`, {
      name: `Member ${randomUUID()}`,
      roleId,
    });
    const scopes = roleId === 'admin' ? SCOPES : EDITOR_SCOPES;
    const { key } = await this.server.newKey(organizationId, { ownerUserId: userId, scopes });
    return this.register(await connect(this.server, organizationId, key));
  }

  /** Creates a role that can edit dashboards. */
  async createRole(name: string): Promise<string> {
    const { id } = await this.owner.call<{ id: string }>(`${ACCESS}/CreateRole`, {
      name,
      scopes: EDITOR_SCOPES,
    });
    return id;
  }

  async stop(): Promise<void> {
    this.users.forEach((user) => user.close());
    await this.server.stop();
  }

  private register(user: DashboardUser): DashboardUser {
    this.users.push(user);
    return user;
  }
}

async function connect(server: TestApp, organizationId: string, key: string): Promise<DashboardUser> {
  const http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(key, organizationId));
  const { json } = await http.send('POST', '/userprofile.UserProfileService/GetPersonalUser', { body: {} });
  const sendGrpc = async (path: string, message: Uint8Array): Promise<Outcome> =>
    await server.send(descriptors.methods.get(path) as MethodDescriptor, message, as(key, organizationId));
  return new DashboardUser(organizationId, json['id'] as string, http, sendGrpc);
}
