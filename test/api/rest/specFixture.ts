import { GatewayServiceClient } from '../../../src/gen/gateway/v1/gateway_service';
import { MediaServiceClient, type Media } from '../../../src/gen/media/v1/media_service';
import { systemClock } from '../../../src/kernel/clock';
import { ProfileImports } from '../../../src/profiles';
import { headers } from '../../support/edge';
import { GatewayClient } from '../../connections/gatewayClient';
import type { TestEngine } from '../../support/engines';
import { HttpClient, type HttpAnswer, type HttpParts, type JsonObject } from '../../support/http';
import { as, startTestApp, type TestApp } from '../../support/testApp';
import { createCodec, getModel, getProfile, getVendor } from '../../support/vendors';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

/**
 * A site as an integrator finds it: a server, a key, an attached gateway, and devices that are created by calls alone.
 */
export class SpecFixture {
  readonly http: HttpClient;
  private count = 0;

  private constructor(
    readonly server: TestApp,
    readonly connection: string,
    /**
     * A connection without a gateway, so that executions for its devices stay queued; the queue limit is two executions
     * per device.
     */
    readonly quietConnection: string,
    /** An uploaded image. */
    readonly mediaId: string,
    private readonly gateway: GatewayClient,
  ) {
    this.http = new HttpClient(server.app.addresses.http as string, server.app.ca);
  }

  static async open(engine: TestEngine): Promise<SpecFixture> {
    const server = await startTestApp(engine);
    const http = new HttpClient(
      server.app.addresses.http as string,
      server.app.ca,
      as(server.key, server.organizationId),
    );
    const connect = async (body: JsonObject): Promise<string> =>
      getId(await http.send('POST', '/api/v2/connections', { body }));
    const connection = await connect({ connectorId: 'gateway', name: 'Plant room' });
    const quiet = await connect({ connectorId: 'gateway', name: 'Cellar', policy: { queueLimit: 2 } });
    http.close();
    const image = await upload(server.client(MediaServiceClient), server);
    const gateway = new GatewayClient(server.client(GatewayServiceClient), server.key, server.organizationId);
    await gateway.attach({ connectionId: connection });
    return new SpecFixture(server, connection, quiet, image.id, gateway);
  }

  get organizationId(): string {
    return this.server.organizationId;
  }

  /** Sends a call with the key and, in the header, the organization. */
  async send(verb: string, path: string, body?: unknown): Promise<HttpAnswer> {
    return await this.http.send(verb, path, {
      headers: as(this.server.key, this.organizationId),
      ...(body !== undefined && { body }),
    });
  }

  /** Sends a call that must succeed and returns its JSON. */
  async sendJson(verb: string, path: string, body?: unknown): Promise<JsonObject> {
    const answer = await this.send(verb, path, body);
    if (answer.status >= 300) throw new Error(`${verb} ${path}: ${answer.status} ${answer.body.toString()}`);
    return answer.json;
  }

  /** Returns an unused name. */
  name(): string {
    this.count += 1;
    return `thing ${this.count}`;
  }

  /** Creates a device without a physical device. */
  async createDevice(): Promise<string> {
    return (await this.sendJson('POST', '/api/v2/devices', { name: this.name() }))['id'] as string;
  }

  /**
   * Creates a device bound to a physical device, by default on the connection of the gateway; returns it with its
   * client device id.
   */
  async createBoundDevice(connectionId = this.connection): Promise<{ id: string; clientDeviceId: string }> {
    const clientDeviceId = this.name();
    const created = await this.sendJson('POST', '/api/v2/devices', {
      name: this.name(),
      physicalDevice: { clientDeviceId, connectionId, configuration: {} },
    });
    return { id: created['id'] as string, clientDeviceId };
  }

  /** Creates a device that has sent data, with a sensor whose values are mapped, an interval and an image. */
  async createFullDevice(): Promise<{ id: string; clientDeviceId: string; sensorId: string }> {
    const { id, clientDeviceId } = await this.createBoundDevice();
    const sensorId = await this.addSensor(id);
    await this.sendJson('PUT', `/api/v2/devices/${id}/sensor-mappings`, { mappings: [{ sensorId, sourcePath: 't' }] });
    await this.sendJson('PATCH', `/api/v2/devices/${id}`, {
      dataSendingInterval: { unit: 'minute', value: 5 },
      images: [{ mediaId: this.mediaId, isCover: true, position: 1 }],
    });
    const uplinkId = this.name();
    this.gateway.uplink(uplinkId, { clientDeviceId, payload: { $case: 'json', value: { t: 21.5 } } });
    await this.gateway.next('uplinkAck');
    return { id, clientDeviceId, sensorId };
  }

  /** Adds a sensor to a device. */
  async addSensor(deviceId: string): Promise<string> {
    const { sensors } = await this.sendJson('POST', `/api/v2/devices/${deviceId}/sensors`, {
      sensorTemplateIds: [await this.template()],
    });
    return (sensors as { id: string }[]).at(-1)?.id ?? '';
  }

  /** Imports a profile and returns its brand, model and band. */
  async importProfile(): Promise<Record<'brand' | 'model' | 'band', string>> {
    const codec = createCodec('level', {
      decoder: 'function decodeUplink(input) { return { data: { level: input.bytes[0] } }; }',
    });
    await new ProfileImports({ database: this.server.database.database, clock: systemClock }).store(
      'lorawan-devices',
      getVendor({ codecs: [codec], models: [getModel({ profiles: [getProfile({ codec: codec.name })] })] }),
    );
    return { brand: 'Quellwerk', model: 'qw-10', band: 'EU863-870' };
  }

  async normalizedKey(): Promise<string> {
    return (await this.sendJson('POST', '/api/v2/devices/sensor-templates/normalized-keys', { name: this.name() }))[
      'id'
    ] as string;
  }

  async template(): Promise<string> {
    const body = { keyNameId: await this.normalizedKey(), sensorType: 'temperature', valueType: 'number' };
    return (await this.sendJson('POST', '/api/v2/devices/sensor-templates', body))['id'] as string;
  }

  /** Returns a definition with the required fields and the given ones. */
  definition(more: JsonObject = {}): JsonObject {
    return {
      name: this.name(),
      mode: 'direct',
      verificationStrategy: 'no_verification',
      directPayload: '{"on": {{params.on}}}',
      paramsSchema: { on: { type: 'boolean', default: true } },
      ...more,
    };
  }

  /** Creates a device on the quiet connection, with a command. */
  async command(more: JsonObject = {}): Promise<{ id: string; commandId: string }> {
    const { id } = await this.createBoundDevice(this.quietConnection);
    const { id: commandId } = await this.sendJson('POST', `/api/v2/devices/${id}/commands`, {
      command: this.definition(more),
    });
    return { id, commandId: commandId as string };
  }

  async stop(): Promise<void> {
    this.http.close();
    this.gateway.cancel();
    await this.gateway.ended;
    await this.server.stop();
  }
}

async function upload(media: MediaServiceClient, { key, organizationId }: TestApp): Promise<Media> {
  return await new Promise((resolve, reject) => {
    const stream = media.uploadMedia(headers(as(key, organizationId)), (error, created) =>
      error ? reject(error) : resolve(created),
    );
    stream.write({ organizationId, filename: 'dot.png', chunk: PNG });
    stream.end();
  });
}

function getId({ json, body }: HttpAnswer): string {
  if (typeof json['id'] !== 'string') throw new Error(`no id: ${body.toString()}`);
  return json['id'];
}

/** The parts of an operation's request, without the organization. */
export interface SpecRequest {
  /** Values for the placeholders of the path. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: JsonObject;
}

/** Builds the request. */
export function findCall(
  path: string,
  request: SpecRequest,
  organization: { readonly query?: string; readonly body?: string },
): { url: string; parts: HttpParts } {
  const query = new URLSearchParams({
    ...request.query,
    ...(organization.query !== undefined && { organizationId: organization.query }),
  }).toString();
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(request.path?.[name] ?? ''));
  const body = organization.body === undefined ? request.body : { ...request.body, organizationId: organization.body };
  return { url: query === '' ? filled : `${filled}?${query}`, parts: body ? { body } : {} };
}
