import { type Client, credentials } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { MediaServiceClient, type Media } from '../../src/gen/media/v1/media_service';
import { SCOPES } from '../../src/kernel/scopes';
import type { Database } from '../../src/database';
import { GatewayClient } from '../connections/gatewayClient';
import { headers } from '../support/edge';
import { HttpClient, type JsonObject } from '../support/http';
import { as, type TestApp } from '../support/testApp';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
/** Tables whose rows outlive an organization: the audit trail. */
const KEPT = ['audit_events', 'audit_chains', 'audit_pending'];

/** A server to which a site is added, in this process or in another one. */
export type SiteServer = Pick<TestApp, 'organization' | 'newKey'> & {
  readonly app: Pick<TestApp['app'], 'addresses' | 'ca'>;
};

/** An organization that has data of every kind. */
export class PopulatedSite {
  private constructor(
    readonly organizationId: string,
    readonly key: string,
    readonly gateway: GatewayClient,
    readonly http: HttpClient,
    private readonly clients: readonly Client[],
  ) {}

  static async create(server: SiteServer, name: string): Promise<PopulatedSite> {
    const organizationId = await server.organization(name);
    const { key } = await server.newKey(organizationId);
    const http = new HttpClient(server.app.addresses.http as string, server.app.ca, as(key, organizationId));
    const [address, trust] = [
      server.app.addresses.grpc.replace('127.0.0.1', 'localhost'),
      credentials.createSsl(readFileSync(server.app.ca as string)),
    ] as const;
    const [gateways, media] = [new GatewayServiceClient(address, trust), new MediaServiceClient(address, trust)];
    const gateway = new GatewayClient(gateways, key, organizationId);
    const site = new PopulatedSite(organizationId, key, gateway, http, [gateways, media]);
    const image = await site.upload(media);
    await site.fill(image.id);
    return site;
  }

  /** Makes a call that must succeed. Returns its JSON. */
  async callMethod(verb: string, path: string, body: JsonObject): Promise<JsonObject> {
    const answer = await this.http.send(verb, path, { body, headers: { 'idempotency-key': randomUUID() } });
    if (answer.status >= 300) throw new Error(`${verb} ${path}: ${answer.status} ${answer.body.toString()}`);
    return answer.json;
  }

  async stop(): Promise<void> {
    this.http.close();
    this.gateway.cancel();
    await this.gateway.ended;
    for (const client of this.clients) client.close();
  }

  private async fill(mediaId: string): Promise<void> {
    const connectionId = await this.id('POST', '/api/v2/connections', { connectorId: 'gateway', name: 'Plant room' });
    await this.id('POST', '/api/v2/roles', { name: 'Reader', scopes: ['devices:read'] });
    const keyNameId = await this.id('POST', '/api/v2/devices/sensor-templates/normalized-keys', {
      name: 'Play of the valve',
    });
    const template = await this.id('POST', '/api/v2/devices/sensor-templates', {
      keyNameId,
      sensorType: 'flow',
      valueType: 'number',
    });
    await this.gateway.attach({ connectionId });
    for (const clientDeviceId of ['one', 'two']) {
      const id = await this.id('POST', '/api/v2/devices', {
        name: clientDeviceId,
        physicalDevice: { clientDeviceId, connectionId, configuration: {} },
        images: [{ mediaId, isCover: true }],
      });
      const { sensors } = await this.callMethod('POST', `/api/v2/devices/${id}/sensors`, {
        sensorTemplateIds: [template, template],
      });
      const [t, wrong] = (sensors as { id: string }[]).map((sensor) => sensor.id);
      await this.callMethod('PUT', `/api/v2/devices/${id}/sensor-mappings`, {
        mappings: [
          { sensorId: t, sourcePath: 't' },
          { sensorId: wrong, sourcePath: 'text' },
        ],
      });
      const command = {
        name: 'Set',
        mode: 'direct',
        verificationStrategy: 'no_verification',
        directPayload: '{"on": true}',
        paramsSchema: {},
      };
      const { id: commandId } = await this.callMethod('POST', `/api/v2/devices/${id}/commands`, { command });
      await this.callMethod('POST', `/api/v2/devices/${id}/actuator-executions`, { commandId });
      await this.gateway.next('command');
    }
    await this.createDashboards();
    for (const clientDeviceId of ['one', 'two', 'nobody'])
      this.gateway.uplink(`up-${clientDeviceId}`, {
        clientDeviceId,
        payload: { $case: 'json', value: { t: 21.5, text: 'no number' } },
      });
    for (let seen = 0; seen < 3; seen += 1) await this.gateway.next('uplinkAck');
  }

  private async createDashboards(): Promise<void> {
    await this.callMethod('POST', '/api/v2/dashboards:createStarters', {});
    const series = [{ missingDevice: 'Boiler', keyName: 'temperature' }];
    const widget = { id: 'a', kind: 'latest', title: 'Temperature', series };
    const id = await this.id('POST', '/api/v2/dashboards', { name: 'Boilers', content: { widgets: [widget] } });
    await this.callMethod('POST', `/api/v2/dashboards/${id}/widgets`, { kind: 'clock' });
  }

  private async id(verb: string, path: string, body: JsonObject): Promise<string> {
    return (await this.callMethod(verb, path, body))['id'] as string;
  }

  private async upload(media: MediaServiceClient): Promise<Media> {
    return await new Promise((resolve, reject) => {
      const stream = media.uploadMedia(headers(as(this.key, this.organizationId)), (error, made) =>
        error ? reject(error) : resolve(made),
      );
      stream.write({ organizationId: this.organizationId, filename: 'dot.png', chunk: PNG });
      stream.end();
    });
  }
}

/** Creates an admin key of an organization. */
export async function createAdminKey({ app }: TestApp, organizationId: string): Promise<string> {
  return (
    await app.keys.create(organizationId, {
      name: 'Admin',
      scopes: SCOPES,
      connectionIds: [],
      allConnections: true,
      ownerUserId: undefined,
      isAdmin: true,
      expiresAt: undefined,
    })
  ).key;
}

/**
 * Counts the rows that each table has of an organization, including empty tables, without the tables of the audit
 * trail.
 */
export async function getRows({ db }: Database, organizationId: string): Promise<Record<string, number>> {
  const statement =
    db.dialect.name === 'sqlite'
      ? "select m.name as name from sqlite_master m join pragma_table_info(m.name) p where m.type = 'table' and p.name = 'organization_id'"
      : "select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'organization_id'";
  const found = (await db.knex.raw(statement)) as { name: string }[] | { rows: { name: string }[] };
  const tables = (Array.isArray(found) ? found : found.rows)
    .map(({ name }) => name)
    .filter((name) => !KEPT.includes(name))
    .toSorted();
  const counts: Record<string, number> = {};
  for (const table of tables)
    counts[table] = await counted(db.knex(table).where('organization_id', organizationId).count({ n: '*' }));
  const series = db.knex('reading_series').select('number');
  for (const table of ['readings', 'reading_hours', 'stale_hours'])
    counts[`stray ${table}`] = await counted(db.knex(table).whereNotIn('series', series).count({ n: '*' }));
  return counts;
}

/** Lists the files of an organization's images, including those in the trash. */
export function listFiles(dataDir: string, organizationId: string): string[] {
  const root = join(dataDir, 'media');
  return existsSync(root)
    ? (readdirSync(root, { recursive: true }) as string[]).filter((path) => path.includes(organizationId))
    : [];
}

async function counted(query: PromiseLike<unknown>): Promise<number> {
  const [row] = (await query) as { n: number | string }[];
  return Number(row?.n ?? 0);
}
