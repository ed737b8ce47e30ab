import { engines } from '../support/engines';
import { HttpClient, seenHttp, type JsonObject } from '../support/http';
import type { MethodFacts } from '../../src/rpc/descriptors';
import { answerJson, httpWays, onWay, requestJson } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';

// One story told to three servers, by gRPC, by the routes, and by POST at the gRPC path: they answer the same and keep the same.

const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
const CONNECTIONS = '/connection.ConnectionService';
const ACCESS = '/organization_access_control.AccessControlService';
const ORGANIZATIONS = '/OrganizationsService';
const READINGS = '/sensorquery.v1.SensorQueryService';
const span = { from: { seconds: 0n, nanos: 0 }, to: { seconds: 3600n, nanos: 0 } };
const definition = { name: 'Open', mode: 1, verificationStrategy: 1, directPayload: '{"on": {{params.on}}}', paramsSchema: { on: { type: 4, default: { kind: { case: 'boolValue', value: true } }, description: 'or shut' } } };

/** What was answered so far, by the names of the steps. */
type Told = Readonly<Record<string, JsonObject>>;
type Step = readonly [name: string, path: string, fields: (told: Told) => Fields];

const of = (told: Told, name: string, field: string): string => String(told[name]?.[field]);
const id = (told: Told, name: string): string => of(told, name, 'id');
const firstSensor = (told: Told): string => ((told['sensors'] as { sensors: { id: string }[] } | undefined)?.sensors[0] ?? { id: '' }).id;
const keyOf = (told: Told, name: string): string => ((told[name] as { apiKey: { id: string } } | undefined)?.apiKey ?? { id: '' }).id;

const STORY: readonly Step[] = [
  ['me', '/userprofile.UserProfileService/GetPersonalUser', () => ({})],
  ['who', `${ACCESS}/WhoAmI`, () => ({})],
  ['connector', '/connector.ConnectorService/GetConnector', () => ({ id: 'gateway' })],
  ['connection', `${CONNECTIONS}/CreateConnection`, () => ({ connectorId: 'gateway', name: '  Plant room ', policy: { queueLimit: 2, sleepy: false } })],
  ['renamed', `${CONNECTIONS}/UpdateConnection`, (told) => ({ id: id(told, 'connection'), description: 'below', etag: of(told, 'connection', 'etag') })],
  ['key', `${TEMPLATES}/CreateNormalizedKey`, () => ({ name: 'valve position' })],
  ['key again', `${TEMPLATES}/CreateNormalizedKey`, () => ({ name: 'Valve Position' })],
  ['template', `${TEMPLATES}/CreateSensorTemplate`, (told) => ({ keyNameId: id(told, 'key'), sensorType: 'valve', valueType: 'number', unitMeasurementId: '%' })],
  ['template 2', `${TEMPLATES}/CreateSensorTemplate`, (told) => ({ keyNameId: id(told, 'key'), sensorType: 'valve', valueType: 'boolean', description: 'open or not' })],
  ['template 2 changed', `${TEMPLATES}/UpdateSensorTemplate`, (told) => ({ id: id(told, 'template 2'), keyNameId: id(told, 'key'), description: '' })],
  ['templates', `${TEMPLATES}/ListSensorTemplates`, () => ({ pageSize: 2 })],
  ['keys', `${TEMPLATES}/ListNormalizedKeys`, () => ({})],
  ['units', `${TEMPLATES}/ListUnitMeasurements`, () => ({ pageSize: 3 })],
  ['plain', `${DEVICES}/CreateDigitalDevice`, () => ({ name: 'Plain' })],
  ['device', `${DEVICES}/CreateDigitalDevice`, (told) => ({ name: 'Valve', physicalDevice: { clientDeviceId: 'valve-1', connectionId: id(told, 'connection'), configuration: {} } })],
  ['twice', `${DEVICES}/CreateDigitalDevice`, (told) => ({ name: 'Valve', physicalDevice: { clientDeviceId: 'valve-1', connectionId: id(told, 'connection') } })],
  ['sensors', `${DEVICES}/AddSensorsToDevice`, (told) => ({ id: id(told, 'device'), sensorTemplateIds: [id(told, 'template'), id(told, 'template 2')] })],
  ['mapped', `${DEVICES}/SetSensorMappings`, (told) => ({ id: id(told, 'device'), mappings: [{ sensorId: firstSensor(told), sourcePath: 'data["position"]' }] })],
  ['changed', `${DEVICES}/UpdateDigitalDevice`, (told) => ({ id: id(told, 'device'), name: 'Valve Ä', dataSendingInterval: { unit: 2, value: 6 } })],
  ['stale', `${DEVICES}/UpdateDigitalDevice`, (told) => ({ id: id(told, 'device'), name: 'Late', etag: of(told, 'device', 'etag') })],
  ['sensor changed', `${DEVICES}/UpdateDeviceSensor`, (told) => ({ id: id(told, 'device'), sensorId: firstSensor(told), sensorTemplateId: id(told, 'template 2') })],
  ['connector keys', `${DEVICES}/GetConnectorKeys`, (told) => ({ id: id(told, 'device'), connectionId: id(told, 'connection'), clientDeviceId: 'valve-1' })],
  ['command', `${COMMANDS}/CreateCommand`, (told) => ({ id: id(told, 'device'), command: { ...definition, expectedSensorStates: [], convergenceTimeout: 60, fPort: 7, mqttTopic: 'valves', confirmed: true } })],
  ['asking', `${COMMANDS}/CreateCommand`, (told) => ({ id: id(told, 'device'), command: { ...definition, name: 'Ask', verificationStrategy: 3, queryCommandId: id(told, 'command') } })],
  ['command changed', `${COMMANDS}/UpdateCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'command'), command: { ...definition, description: 'slowly' } })],
  ['in use', `${COMMANDS}/DeleteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'command') })],
  ['preview', `${COMMANDS}/PreviewEncoder`, (told) => ({ id: id(told, 'device'), customEncoder: 'function encodeDownlink(input) { return { bytes: [input.data.a] }; }', params: { a: 5 }, fPort: 3 })],
  ['broken preview', `${COMMANDS}/PreviewEncoder`, (told) => ({ id: id(told, 'device'), customEncoder: 'nothing(' })],
  ['execution', `${COMMANDS}/ExecuteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'command'), params: { on: false }, triggerId: 'trigger-1' })],
  ['duplicate', `${COMMANDS}/ExecuteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'command'), params: { on: false }, triggerId: 'trigger-1' })],
  ['refused', `${COMMANDS}/ExecuteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'command'), params: { on: 'yes', off: 1 } })],
  ['second', `${COMMANDS}/ExecuteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'command') })],
  ['full', `${COMMANDS}/ExecuteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'asking') })],
  ['cancelled', `${COMMANDS}/CancelExecution`, (told) => ({ executionId: of(told, 'execution', 'executionId') })],
  ['got execution', `${COMMANDS}/GetExecution`, (told) => ({ executionId: of(told, 'refused', 'executionId') })],
  ['executions', `${COMMANDS}/ListExecutions`, (told) => ({ id: id(told, 'device'), limit: 2 })],
  ['commands', `${COMMANDS}/ListCommands`, (told) => ({ id: id(told, 'device') })],
  ['devices', `${DEVICES}/ListDigitalDevices`, () => ({ limit: 1, offset: 0, search: 'VALVE ä' })],
  ['got device', `${DEVICES}/GetDigitalDevice`, (told) => ({ id: id(told, 'device') })],
  ['latest', `${READINGS}/QueryLatest`, (told) => ({ deviceIds: [id(told, 'device')] })],
  ['range', `${READINGS}/QueryRange`, (told) => ({ sensorIds: [firstSensor(told)], ...span, order: 2 })],
  ['aggregate', `${READINGS}/QueryAggregate`, (told) => ({ sensorIds: [firstSensor(told)], ...span, bucket: { count: 1, unit: 2 }, timeZone: 'Europe/Berlin', functions: [1, 4] })],
  ['api key', `${ACCESS}/CreateApiKey`, () => ({ name: 'Reader', scopes: ['devices:read', 'sensors:read'], expiresAt: { seconds: 4_000_000_000n, nanos: 0 } })],
  ['revoked', `${ACCESS}/RevokeApiKey`, (told) => ({ id: keyOf(told, 'api key') })],
  ['limited key', `${ACCESS}/CreateApiKey`, (told) => ({ name: 'Tenant', scopes: ['devices:read'], note: 'below', restrictions: { deviceIds: [id(told, 'device')] }, allowedAddresses: ['192.0.2.0/24', '2001:DB8::1'] })],
  ['key changed', `${ACCESS}/UpdateApiKey`, (told) => ({ id: keyOf(told, 'limited key'), name: 'Tenants', neverExpires: true, allowedAddresses: { addresses: ['192.0.2.7'] } })],
  ['rotated', `${ACCESS}/RotateApiKey`, (told) => ({ id: keyOf(told, 'limited key'), graceSeconds: 60 })],
  ['rotated again', `${ACCESS}/RotateApiKey`, (told) => ({ id: keyOf(told, 'api key') })],
  ['got key', `${ACCESS}/GetApiKey`, (told) => ({ id: keyOf(told, 'rotated') })],
  ['api keys', `${ACCESS}/ListApiKeys`, () => ({})],
  ['role', `${ACCESS}/CreateRole`, () => ({ name: ' Night ', scopes: ['devices:read', 'commands:read'] })],
  ['role again', `${ACCESS}/CreateRole`, () => ({ name: 'NIGHT', scopes: ['devices:read'] })],
  ['member', `${ACCESS}/AddMember`, (told) => ({ name: 'Somebody', email: 'somebody@site.example', roleId: id(told, 'role') })],
  ['role changed', `${ACCESS}/UpdateRole`, (told) => ({ id: id(told, 'role'), description: 'from ten on', etag: of(told, 'role', 'etag') })],
  ['role in use', `${ACCESS}/DeleteRole`, (told) => ({ id: id(told, 'role') })],
  ['member changed', `${ACCESS}/UpdateMember`, (told) => ({ userId: of(told, 'member', 'userId'), roleId: 'operator', etag: of(told, 'member', 'etag') })],
  ['got member', `${ACCESS}/GetMember`, (told) => ({ userId: of(told, 'member', 'userId') })],
  ['members', `${ACCESS}/ListMembers`, () => ({ pageSize: 1 })],
  ['roles', `${ACCESS}/ListRoles`, () => ({})],
  ['role deleted', `${ACCESS}/DeleteRole`, (told) => ({ id: id(told, 'role') })],
  ['last owner', `${ACCESS}/RemoveMember`, (told) => ({ userId: id(told, 'me') })],
  ['member removed', `${ACCESS}/RemoveMember`, (told) => ({ userId: of(told, 'member', 'userId') })],
  ['organizations', `${ORGANIZATIONS}/ListOrganizations`, () => ({})],
  ['no admin', `${ORGANIZATIONS}/CreateOrganization`, () => ({ name: 'Third' })],
  ['nobody', `${DEVICES}/GetDigitalDevice`, () => ({ id: 'nobody' })],
  ['invalid', `${COMMANDS}/CreateCommand`, (told) => ({ id: id(told, 'device'), command: { name: '', mode: 1, fPort: 900, expectedSensorStates: [{ sensorId: 'x', valueTemplate: '' }] } })],
  ['mismatch', `${DEVICES}/ListDigitalDevices`, () => ({ organizationId: 'another' })],
  ['connection in use', `${CONNECTIONS}/DeleteConnection`, (told) => ({ id: id(told, 'connection') })],
  ['sensor removed', `${DEVICES}/RemoveSensorsFromDevice`, (told) => ({ id: id(told, 'device'), sensorIds: [firstSensor(told)] })],
  ['template deleted', `${TEMPLATES}/DeleteSensorTemplate`, (told) => ({ id: id(told, 'template') })],
  ['asking deleted', `${COMMANDS}/DeleteCommand`, (told) => ({ id: id(told, 'device'), commandId: id(told, 'asking') })],
  ['plain deleted', `${DEVICES}/DeleteDigitalDevice`, (told) => ({ id: id(told, 'plain') })],
  ['connections', `${CONNECTIONS}/ListConnections`, () => ({})],
  ['events', `${ACCESS}/ListAuditEvents`, () => ({ pageSize: 200 })],
];

/** A server, and how a step of the story is told to it. */
interface Teller {
  readonly server: TestApp;
  readonly tell: (facts: MethodFacts, fields: Fields) => Promise<JsonObject>;
}

const byGrpc = (server: TestApp): Teller => ({
  server,
  tell: async (facts, fields) => {
    const { answer, error } = await server.send(facts, encode(facts.request, fields), as(server.key, server.organizationId));
    return answer ? answerJson(facts, answer) : { code: error?.reason, message: error?.message, fields: error?.fields, metadata: error?.metadata };
  },
});

const byHttp = (server: TestApp, http: HttpClient, way: 0 | -1): Teller => ({
  server,
  tell: async (facts, fields) => {
    const chosen = httpWays(facts).at(way);
    if (!chosen) throw new Error(`no way to ${facts.path}`);
    const { url, body } = onWay(chosen, requestJson(facts, fields));
    const answer = await http.send(chosen.verb, url, body ? { body } : {});
    if ('error' in answer.json && !('output' in answer.json)) {
      const { code, message, fields: wrong, metadata } = seenHttp(answer);
      return { code, message, fields: wrong, metadata };
    }
    return answer.json;
  },
});

/** Replaces what differs between two servers: ids by their order of appearance, times, keys and what is signed. */
class Sameness {
  private readonly names = new Map<string, string>();

  of(value: unknown): unknown {
    const text = JSON.stringify(value, (name, one: unknown) => (VOLATILE.has(name) && one !== undefined && one !== null && one !== '' ? `<${name}>` : one));
    return JSON.parse(
      text
        .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, (found) => this.nameOf(found))
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
        .replaceAll(/(?<=[:[,])\d{13,16}(?=[,}\]])/g, '"TIME"')
        .replaceAll(/plr_\w+/g, 'KEY'),
    ) as unknown;
  }

  private nameOf(found: string): string {
    const name = this.names.get(found) ?? `id-${this.names.size + 1}`;
    this.names.set(found, name);
    return name;
  }
}

const VOLATILE = new Set(['executionTimeMs', 'nextPageToken', 'nextCursor', 'lastUsedAddress', 'key_hash', 'prefix', 'key_prefix', 'hash', 'last_hash']);

/** The rows of every table, in an order of their own. */
async function rowsOf({ database }: TestApp, sameness: Sameness): Promise<Readonly<Record<string, unknown[]>>> {
  const { knex, engine } = { knex: database.database.db.knex, engine: database.url === '' ? 'sqlite' : 'postgres' };
  const names = engine === 'sqlite' ? await knex('sqlite_master').where({ type: 'table' }).select('name') : await knex('pg_tables').where({ schemaname: 'public' }).select('tablename as name');
  const tables: Record<string, unknown[]> = {};
  for (const { name } of names as { name: string }[]) {
    if (name.startsWith('sqlite_') || PRIVATE.has(name)) continue;
    const rows = (await knex(name).select('*')) as unknown[];
    tables[name] = rows.map((row) => JSON.stringify(sameness.of(withoutBytes(row as Record<string, unknown>)))).toSorted();
  }
  return tables;
}

/** Tables of what is one server's own: its secrets and its migrations. */
const PRIVATE = new Set(['knex_migrations', 'knex_migrations_lock', 'settings']);

function withoutBytes(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Buffer.isBuffer(value) ? `${value.length} bytes` : value]));
}

describe.each(engines())('the same story by gRPC and by HTTP, on $name', (engine) => {
  let tellers: Teller[];
  const clients: HttpClient[] = [];

  beforeAll(async () => {
    const servers = [await startTestApp(engine), await startTestApp(engine), await startTestApp(engine)] as const;
    const http = servers.slice(1).map((server) => new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId)));
    clients.push(...http);
    tellers = [byGrpc(servers[0]), byHttp(servers[1], clients[0] as HttpClient, 0), byHttp(servers[2], clients[1] as HttpClient, -1)];
  });
  afterAll(async () => {
    for (const client of clients) client.close();
    for (const { server } of tellers) await server.stop();
  });

  it('is answered the same, and leaves the same behind', async () => {
    const ends = [];
    for (const { server, tell } of tellers) {
      const told: Record<string, JsonObject> = {};
      const sameness = new Sameness();
      for (const [name, path, fields] of STORY) told[name] = await tell(descriptors.methods.get(path) as MethodFacts, fields(told));
      ends.push({ answers: sameness.of(told), rows: await rowsOf(server, sameness), errors: server.log.lines.filter(({ level }) => level === 'error') });
    }
    const [grpc, ...others] = ends;
    for (const other of others) expect(other).toEqual(grpc);
    expect(grpc?.errors).toEqual([]);
    expect(grpc?.answers).toMatchObject({
      device: { name: 'Valve', physicalDevice: { clientDeviceId: 'valve-1' } }, twice: { code: 'physical_device_already_bound' }, stale: { code: 'changed_meanwhile' }, execution: { accepted: true }, duplicate: { duplicate: true },
      refused: { rejectionReason: 'validation_failed' }, full: { rejectionReason: 'device_queue_full' }, cancelled: { detail: 'cancelled' }, nobody: { code: 'device_not_found' }, mismatch: { code: 'organization_mismatch' }, 'in use': { code: 'query_command_in_use' },
      'rotated again': { code: 'api_key_ended' }, 'role again': { code: 'name_taken' }, 'role in use': { code: 'role_in_use' }, 'role deleted': {}, 'last owner': { code: 'last_owner' }, 'member removed': { revokedApiKeys: 0 }, 'no admin': { code: 'admin_key_required' },
    });
  });
});
