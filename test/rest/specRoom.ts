import { type Client, credentials } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { MediaServiceClient, type Media } from '../../src/gen/media/v1/media_service';
import { systemClock } from '../../src/kernel/clock';
import { ProfileImports } from '../../src/profiles';
import { headers } from '../support/edge';
import { GatewayClient } from '../connections/gatewayClient';
import type { TestEngine } from '../support/engines';
import { HttpClient, type HttpAnswer, type HttpParts, type JsonObject } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { codecOf, modelOf, profileOf, vendorOf } from '../support/vendors';

const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

/** A site as an integrator finds it: a server, a key, a gateway that is attached, and devices that are made by calls alone. */
export class SpecRoom {
  readonly http: HttpClient;
  private count = 0;

  private constructor(
    readonly server: TestApp,
    readonly connection: string,
    /** A connection on which no gateway is, so that what is sent to its devices stays where it is; it holds two executions a device. */
    readonly quietConnection: string,
    /** An uploaded picture. */
    readonly picture: string,
    private readonly gateway: GatewayClient,
    private readonly gateways: Client,
  ) {
    this.http = new HttpClient(server.app.addresses.http as string, server.app.ca);
  }

  static async open(engine: TestEngine): Promise<SpecRoom> {
    const server = await startTestApp(engine);
    const http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId));
    const connect = async (body: JsonObject): Promise<string> => idOf(await http.send('POST', '/api/v2/connections', { body }));
    const connection = await connect({ connectorId: 'gateway', name: 'Plant room' });
    const quiet = await connect({ connectorId: 'gateway', name: 'Cellar', policy: { queueLimit: 2 } });
    http.close();
    const [address, trust] = [server.app.addresses.grpc.replace('127.0.0.1', 'localhost'), credentials.createSsl(readFileSync(server.app.ca as string))] as const;
    const media = new MediaServiceClient(address, trust);
    const picture = await upload(media, server);
    media.close();
    const gateways = new GatewayServiceClient(address, trust);
    const gateway = new GatewayClient(gateways, server.key, server.organizationId);
    await gateway.attach({ connectionId: connection });
    return new SpecRoom(server, connection, quiet, picture.id, gateway, gateways);
  }

  get organizationId(): string {
    return this.server.organizationId;
  }

  /** A call with the key and, in the header, the organization. */
  async ask(verb: string, path: string, body?: unknown): Promise<HttpAnswer> {
    return await this.http.send(verb, path, { headers: as(this.server.key, this.organizationId), ...(body !== undefined && { body }) });
  }

  /** Such a call that must succeed; its JSON. */
  async made(verb: string, path: string, body?: unknown): Promise<JsonObject> {
    const answer = await this.ask(verb, path, body);
    if (answer.status >= 300) throw new Error(`${verb} ${path}: ${answer.status} ${answer.body.toString()}`);
    return answer.json;
  }

  /** A name that nothing has yet. */
  name(): string {
    this.count += 1;
    return `thing ${this.count}`;
  }

  /** A device without a physical one. */
  async device(): Promise<string> {
    return (await this.made('POST', '/api/v2/devices', { name: this.name() }))['id'] as string;
  }

  /** A device bound to a physical one, by default on the connection where the gateway is; with its client device id. */
  async boundDevice(connectionId = this.connection): Promise<{ id: string; clientDeviceId: string }> {
    const clientDeviceId = this.name();
    const made = await this.made('POST', '/api/v2/devices', { name: this.name(), physicalDevice: { clientDeviceId, connectionId, configuration: {} } });
    return { id: made['id'] as string, clientDeviceId };
  }

  /** A device that has been heard, with a sensor whose values are mapped, an interval and a picture. */
  async wholeDevice(): Promise<{ id: string; clientDeviceId: string; sensorId: string }> {
    const { id, clientDeviceId } = await this.boundDevice();
    const sensorId = await this.sensor(id);
    await this.made('PUT', `/api/v2/devices/${id}/sensor-mappings`, { mappings: [{ sensorId, sourcePath: 't' }] });
    await this.made('PATCH', `/api/v2/devices/${id}`, { dataSendingInterval: { unit: 'minute', value: 5 }, images: [{ mediaId: this.picture, isCover: true, position: 1 }] });
    const uplinkId = this.name();
    this.gateway.uplink(uplinkId, { clientDeviceId, payload: { $case: 'json', value: { t: 21.5 } } });
    await this.gateway.next('uplinkAck');
    return { id, clientDeviceId, sensorId };
  }

  /** A sensor on a device. */
  async sensor(device: string): Promise<string> {
    const { sensors } = await this.made('POST', `/api/v2/devices/${device}/sensors`, { sensorTemplateIds: [await this.template()] });
    return (sensors as { id: string }[]).at(-1)?.id ?? '';
  }

  /** The brand, model and band of a profile that was imported. */
  async profile(): Promise<Record<'brand' | 'model' | 'band', string>> {
    const codec = codecOf('level', { decoder: 'function decodeUplink(input) { return { data: { level: input.bytes[0] } }; }' });
    await new ProfileImports({ database: this.server.database.database, clock: systemClock }).store('lorawan-devices', vendorOf({ codecs: [codec], models: [modelOf({ profiles: [profileOf({ codec: codec.name })] })] }));
    return { brand: 'Quellwerk', model: 'qw-10', band: 'EU863-870' };
  }

  async normalizedKey(): Promise<string> {
    return (await this.made('POST', '/api/v2/devices/sensor-templates/normalized-keys', { name: this.name() }))['id'] as string;
  }

  async template(): Promise<string> {
    const body = { keyNameId: await this.normalizedKey(), sensorType: 'temperature', valueType: 'number' };
    return (await this.made('POST', '/api/v2/devices/sensor-templates', body))['id'] as string;
  }

  /** A definition with the required fields and what else is given. */
  definition(more: JsonObject = {}): JsonObject {
    return { name: this.name(), mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{"on": {{params.on}}}', paramsSchema: { on: { type: 'boolean', default: true } }, ...more };
  }

  /** A device on the quiet connection with a command, both new. */
  async command(more: JsonObject = {}): Promise<{ id: string; commandId: string }> {
    const { id } = await this.boundDevice(this.quietConnection);
    const { id: commandId } = await this.made('POST', `/api/v2/devices/${id}/commands`, { command: this.definition(more) });
    return { id, commandId: commandId as string };
  }

  async stop(): Promise<void> {
    this.http.close();
    this.gateway.cancel();
    await this.gateway.ended;
    this.gateways.close();
    await this.server.stop();
  }
}

async function upload(media: MediaServiceClient, { key, organizationId }: TestApp): Promise<Media> {
  return await new Promise((resolve, reject) => {
    const stream = media.uploadMedia(headers(as(key, organizationId)), (error, made) => (error ? reject(error) : resolve(made)));
    stream.write({ organizationId, filename: 'dot.png', chunk: PNG });
    stream.end();
  });
}

function idOf({ json, body }: HttpAnswer): string {
  if (typeof json['id'] !== 'string') throw new Error(`no id: ${body.toString()}`);
  return json['id'];
}

/** What a call of an operation consists of, its organization aside. */
export interface Asked {
  /** What stands for the placeholders of the path. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: JsonObject;
}

/** Puts it together. */
export function callOf(path: string, asked: Asked, organization: { readonly query?: string; readonly body?: string }): { url: string; parts: HttpParts } {
  const query = new URLSearchParams({ ...asked.query, ...(organization.query !== undefined && { organizationId: organization.query }) }).toString();
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(asked.path?.[name] ?? ''));
  const body = organization.body === undefined ? asked.body : { ...asked.body, organizationId: organization.body };
  return { url: query === '' ? filled : `${filled}?${query}`, parts: body ? { body } : {} };
}
