import { engines } from '../../support/engines';
import { HttpClient, parseHttpError, type JsonObject } from '../../support/http';
import type { MethodDescriptor } from '../../../src/api/descriptors/descriptors';
import { answerJson, httpWays, buildRequest, requestJson } from '../../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../../support/testApp';

// Runs one scenario against three servers (gRPC, REST routes, and POST at the gRPC path). All three must return the
// same responses and store the same rows.

const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
const CONNECTIONS = '/connection.ConnectionService';
const ACCESS = '/organization_access_control.AccessControlService';
const ORGANIZATIONS = '/OrganizationsService';
const READINGS = '/sensorquery.v1.SensorQueryService';
const span = { from: { seconds: 0n, nanos: 0 }, to: { seconds: 3600n, nanos: 0 } };
const definition = {
  name: 'Open',
  mode: 1,
  verificationStrategy: 1,
  directPayload: '{"on": {{params.on}}}',
  paramsSchema: { on: { type: 4, default: { kind: { case: 'boolValue', value: true } }, description: 'or shut' } },
};

/** The responses so far, by step name. */
type Responses = Readonly<Record<string, JsonObject>>;
type Step = readonly [name: string, path: string, fields: (responses: Responses) => Fields];

const getField = (responses: Responses, name: string, field: string): string => String(responses[name]?.[field]);
const id = (responses: Responses, name: string): string => getField(responses, name, 'id');
const firstSensor = (responses: Responses): string =>
  ((responses['sensors'] as { sensors: { id: string }[] } | undefined)?.sensors[0] ?? { id: '' }).id;
const getKey = (responses: Responses, name: string): string =>
  ((responses[name] as { apiKey: { id: string } } | undefined)?.apiKey ?? { id: '' }).id;

const SCENARIO: readonly Step[] = [
  ['me', '/userprofile.UserProfileService/GetPersonalUser', () => ({})],
  ['who', `${ACCESS}/WhoAmI`, () => ({})],
  ['connector', '/connector.ConnectorService/GetConnector', () => ({ id: 'gateway' })],
  [
    'connection',
    `${CONNECTIONS}/CreateConnection`,
    () => ({ connectorId: 'gateway', name: '  Plant room ', policy: { queueLimit: 2, sleepy: false } }),
  ],
  [
    'renamed',
    `${CONNECTIONS}/UpdateConnection`,
    (responses) => ({
      id: id(responses, 'connection'),
      description: 'below',
      etag: getField(responses, 'connection', 'etag'),
    }),
  ],
  ['key', `${TEMPLATES}/CreateNormalizedKey`, () => ({ name: 'valve position' })],
  ['key again', `${TEMPLATES}/CreateNormalizedKey`, () => ({ name: 'Valve Position' })],
  [
    'template',
    `${TEMPLATES}/CreateSensorTemplate`,
    (responses) => ({
      keyNameId: id(responses, 'key'),
      sensorType: 'valve',
      valueType: 'number',
      unitMeasurementId: '%',
    }),
  ],
  [
    'template 2',
    `${TEMPLATES}/CreateSensorTemplate`,
    (responses) => ({
      keyNameId: id(responses, 'key'),
      sensorType: 'valve',
      valueType: 'boolean',
      description: 'open or not',
    }),
  ],
  [
    'template 2 changed',
    `${TEMPLATES}/UpdateSensorTemplate`,
    (responses) => ({ id: id(responses, 'template 2'), keyNameId: id(responses, 'key'), description: '' }),
  ],
  ['templates', `${TEMPLATES}/ListSensorTemplates`, () => ({ pageSize: 2 })],
  ['keys', `${TEMPLATES}/ListNormalizedKeys`, () => ({})],
  ['units', `${TEMPLATES}/ListUnitMeasurements`, () => ({ pageSize: 3 })],
  ['plain', `${DEVICES}/CreateDigitalDevice`, () => ({ name: 'Plain' })],
  [
    'device',
    `${DEVICES}/CreateDigitalDevice`,
    (responses) => ({
      name: 'Valve',
      physicalDevice: { clientDeviceId: 'valve-1', connectionId: id(responses, 'connection'), configuration: {} },
    }),
  ],
  [
    'twice',
    `${DEVICES}/CreateDigitalDevice`,
    (responses) => ({
      name: 'Valve',
      physicalDevice: { clientDeviceId: 'valve-1', connectionId: id(responses, 'connection') },
    }),
  ],
  [
    'sensors',
    `${DEVICES}/AddSensorsToDevice`,
    (responses) => ({
      id: id(responses, 'device'),
      sensorTemplateIds: [id(responses, 'template'), id(responses, 'template 2')],
    }),
  ],
  [
    'mapped',
    `${DEVICES}/SetSensorMappings`,
    (responses) => ({
      id: id(responses, 'device'),
      mappings: [{ sensorId: firstSensor(responses), sourcePath: 'data["position"]' }],
    }),
  ],
  [
    'changed',
    `${DEVICES}/UpdateDigitalDevice`,
    (responses) => ({ id: id(responses, 'device'), name: 'Valve Ä', dataSendingInterval: { unit: 2, value: 6 } }),
  ],
  [
    'stale',
    `${DEVICES}/UpdateDigitalDevice`,
    (responses) => ({ id: id(responses, 'device'), name: 'Late', etag: getField(responses, 'device', 'etag') }),
  ],
  [
    'sensor changed',
    `${DEVICES}/UpdateDeviceSensor`,
    (responses) => ({
      id: id(responses, 'device'),
      sensorId: firstSensor(responses),
      sensorTemplateId: id(responses, 'template 2'),
    }),
  ],
  [
    'connector keys',
    `${DEVICES}/GetConnectorKeys`,
    (responses) => ({
      id: id(responses, 'device'),
      connectionId: id(responses, 'connection'),
      clientDeviceId: 'valve-1',
    }),
  ],
  [
    'command',
    `${COMMANDS}/CreateCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      command: {
        ...definition,
        expectedSensorStates: [],
        convergenceTimeout: 60,
        fPort: 7,
        mqttTopic: 'valves',
        confirmed: true,
      },
    }),
  ],
  [
    'asking',
    `${COMMANDS}/CreateCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      command: { ...definition, name: 'Ask', verificationStrategy: 3, queryCommandId: id(responses, 'command') },
    }),
  ],
  [
    'command changed',
    `${COMMANDS}/UpdateCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      commandId: id(responses, 'command'),
      command: { ...definition, description: 'slowly' },
    }),
  ],
  [
    'in use',
    `${COMMANDS}/DeleteCommand`,
    (responses) => ({ id: id(responses, 'device'), commandId: id(responses, 'command') }),
  ],
  [
    'preview',
    `${COMMANDS}/PreviewEncoder`,
    (responses) => ({
      id: id(responses, 'device'),
      customEncoder: 'function encodeDownlink(input) { return { bytes: [input.data.a] }; }',
      params: { a: 5 },
      fPort: 3,
    }),
  ],
  [
    'broken preview',
    `${COMMANDS}/PreviewEncoder`,
    (responses) => ({ id: id(responses, 'device'), customEncoder: 'nothing(' }),
  ],
  [
    'execution',
    `${COMMANDS}/ExecuteCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      commandId: id(responses, 'command'),
      params: { on: false },
      triggerId: 'trigger-1',
    }),
  ],
  [
    'duplicate',
    `${COMMANDS}/ExecuteCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      commandId: id(responses, 'command'),
      params: { on: false },
      triggerId: 'trigger-1',
    }),
  ],
  [
    'refused',
    `${COMMANDS}/ExecuteCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      commandId: id(responses, 'command'),
      params: { on: 'yes', off: 1 },
    }),
  ],
  [
    'second',
    `${COMMANDS}/ExecuteCommand`,
    (responses) => ({ id: id(responses, 'device'), commandId: id(responses, 'command') }),
  ],
  [
    'full',
    `${COMMANDS}/ExecuteCommand`,
    (responses) => ({ id: id(responses, 'device'), commandId: id(responses, 'asking') }),
  ],
  [
    'cancelled',
    `${COMMANDS}/CancelExecution`,
    (responses) => ({ executionId: getField(responses, 'execution', 'executionId') }),
  ],
  [
    'got execution',
    `${COMMANDS}/GetExecution`,
    (responses) => ({ executionId: getField(responses, 'refused', 'executionId') }),
  ],
  ['executions', `${COMMANDS}/ListExecutions`, (responses) => ({ id: id(responses, 'device'), limit: 2 })],
  ['commands', `${COMMANDS}/ListCommands`, (responses) => ({ id: id(responses, 'device') })],
  ['devices', `${DEVICES}/ListDigitalDevices`, () => ({ limit: 1, offset: 0, search: 'VALVE ä' })],
  ['got device', `${DEVICES}/GetDigitalDevice`, (responses) => ({ id: id(responses, 'device') })],
  ['latest', `${READINGS}/QueryLatest`, (responses) => ({ deviceIds: [id(responses, 'device')] })],
  ['range', `${READINGS}/QueryRange`, (responses) => ({ sensorIds: [firstSensor(responses)], ...span, order: 2 })],
  [
    'aggregate',
    `${READINGS}/QueryAggregate`,
    (responses) => ({
      sensorIds: [firstSensor(responses)],
      ...span,
      bucket: { count: 1, unit: 2 },
      timeZone: 'Europe/Berlin',
      functions: [1, 4],
    }),
  ],
  [
    'api key',
    `${ACCESS}/CreateApiKey`,
    () => ({
      name: 'Reader',
      scopes: ['devices:read', 'sensors:read'],
      expiresAt: { seconds: 4_000_000_000n, nanos: 0 },
    }),
  ],
  ['revoked', `${ACCESS}/RevokeApiKey`, (responses) => ({ id: getKey(responses, 'api key') })],
  [
    'restricted key',
    `${ACCESS}/CreateApiKey`,
    (responses) => ({
      name: 'Tenant',
      scopes: ['devices:read'],
      note: 'below',
      restrictions: { deviceIds: [id(responses, 'device')] },
      allowedAddresses: ['192.0.2.0/24', '2001:DB8::1'],
    }),
  ],
  [
    'key changed',
    `${ACCESS}/UpdateApiKey`,
    (responses) => ({
      id: getKey(responses, 'restricted key'),
      name: 'Tenants',
      neverExpires: true,
      allowedAddresses: { addresses: ['192.0.2.7'] },
    }),
  ],
  ['rotated', `${ACCESS}/RotateApiKey`, (responses) => ({ id: getKey(responses, 'restricted key'), graceSeconds: 60 })],
  ['rotated again', `${ACCESS}/RotateApiKey`, (responses) => ({ id: getKey(responses, 'api key') })],
  ['got key', `${ACCESS}/GetApiKey`, (responses) => ({ id: getKey(responses, 'rotated') })],
  ['api keys', `${ACCESS}/ListApiKeys`, () => ({})],
  ['role', `${ACCESS}/CreateRole`, () => ({ name: ' Night ', scopes: ['devices:read', 'commands:read'] })],
  ['role again', `${ACCESS}/CreateRole`, () => ({ name: 'NIGHT', scopes: ['devices:read'] })],
  [
    'member',
    `${ACCESS}/AddMember`,
    (responses) => ({ name: 'Somebody', email: 'somebody@site.example', roleId: id(responses, 'role') }),
  ],
  [
    'role changed',
    `${ACCESS}/UpdateRole`,
    (responses) => ({
      id: id(responses, 'role'),
      description: 'from ten on',
      etag: getField(responses, 'role', 'etag'),
    }),
  ],
  ['role in use', `${ACCESS}/DeleteRole`, (responses) => ({ id: id(responses, 'role') })],
  [
    'member changed',
    `${ACCESS}/UpdateMember`,
    (responses) => ({
      userId: getField(responses, 'member', 'userId'),
      roleId: 'operator',
      etag: getField(responses, 'member', 'etag'),
    }),
  ],
  ['got member', `${ACCESS}/GetMember`, (responses) => ({ userId: getField(responses, 'member', 'userId') })],
  ['members', `${ACCESS}/ListMembers`, () => ({ pageSize: 1 })],
  ['roles', `${ACCESS}/ListRoles`, () => ({})],
  ['role deleted', `${ACCESS}/DeleteRole`, (responses) => ({ id: id(responses, 'role') })],
  ['last owner', `${ACCESS}/RemoveMember`, (responses) => ({ userId: id(responses, 'me') })],
  ['member removed', `${ACCESS}/RemoveMember`, (responses) => ({ userId: getField(responses, 'member', 'userId') })],
  ['organizations', `${ORGANIZATIONS}/ListOrganizations`, () => ({})],
  ['no admin', `${ORGANIZATIONS}/CreateOrganization`, () => ({ name: 'Third' })],
  ['nobody', `${DEVICES}/GetDigitalDevice`, () => ({ id: 'nobody' })],
  [
    'invalid',
    `${COMMANDS}/CreateCommand`,
    (responses) => ({
      id: id(responses, 'device'),
      command: { name: '', mode: 1, fPort: 900, expectedSensorStates: [{ sensorId: 'x', valueTemplate: '' }] },
    }),
  ],
  ['mismatch', `${DEVICES}/ListDigitalDevices`, () => ({ organizationId: 'another' })],
  ['connection in use', `${CONNECTIONS}/DeleteConnection`, (responses) => ({ id: id(responses, 'connection') })],
  [
    'sensor removed',
    `${DEVICES}/RemoveSensorsFromDevice`,
    (responses) => ({ id: id(responses, 'device'), sensorIds: [firstSensor(responses)] }),
  ],
  ['template deleted', `${TEMPLATES}/DeleteSensorTemplate`, (responses) => ({ id: id(responses, 'template') })],
  [
    'asking deleted',
    `${COMMANDS}/DeleteCommand`,
    (responses) => ({ id: id(responses, 'device'), commandId: id(responses, 'asking') }),
  ],
  ['plain deleted', `${DEVICES}/DeleteDigitalDevice`, (responses) => ({ id: id(responses, 'plain') })],
  ['connections', `${CONNECTIONS}/ListConnections`, () => ({})],
  ['events', `${ACCESS}/ListAuditEvents`, () => ({ pageSize: 200 })],
];

/** A server and the way in which it receives the steps of the scenario. */
interface ScenarioRunner {
  readonly server: TestApp;
  readonly run: (descriptor: MethodDescriptor, fields: Fields) => Promise<JsonObject>;
}

const byGrpc = (server: TestApp): ScenarioRunner => ({
  server,
  run: async (descriptor, fields) => {
    const { answer, error } = await server.send(
      descriptor,
      encode(descriptor.request, fields),
      as(server.key, server.organizationId),
    );
    return answer
      ? answerJson(descriptor, answer)
      : { code: error?.reason, message: error?.message, fields: error?.fields, metadata: error?.metadata };
  },
});

const byHttp = (server: TestApp, http: HttpClient, way: 0 | -1): ScenarioRunner => ({
  server,
  run: async (descriptor, fields) => {
    const chosen = httpWays(descriptor).at(way);
    if (!chosen) throw new Error(`no way to ${descriptor.path}`);
    const { url, body } = buildRequest(chosen, requestJson(descriptor, fields));
    const answer = await http.send(chosen.verb, url, body ? { body } : {});
    if ('error' in answer.json && !('output' in answer.json)) {
      const { code, message, fields: wrong, metadata } = parseHttpError(answer);
      return { code, message, fields: wrong, metadata };
    }
    return answer.json;
  },
});

/** Replaces what differs between two servers: ids (numbered by first appearance), times, keys and signatures. */
class Sameness {
  private readonly names = new Map<string, string>();

  of(value: unknown): unknown {
    const text = JSON.stringify(value, (name, one: unknown) =>
      VOLATILE.has(name) && one !== undefined && one !== null && one !== '' ? `<${name}>` : one,
    );
    return JSON.parse(
      text
        .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, (found) => this.getName(found))
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
        .replaceAll(/(?<=[:[,])\d{13,16}(?=[,}\]])/g, '"TIME"')
        .replaceAll(/plr_\w+/g, 'KEY'),
    ) as unknown;
  }

  private getName(found: string): string {
    const name = this.names.get(found) ?? `id-${this.names.size + 1}`;
    this.names.set(found, name);
    return name;
  }
}

const VOLATILE = new Set([
  'executionTimeMs',
  'nextPageToken',
  'nextCursor',
  'lastUsedAddress',
  'key_hash',
  'prefix',
  'key_prefix',
  'hash',
  'last_hash',
]);

/** The rows of every table, sorted. */
async function listRows({ database }: TestApp, sameness: Sameness): Promise<Readonly<Record<string, unknown[]>>> {
  const { knex, engine } = { knex: database.database.db.knex, engine: database.url === '' ? 'sqlite' : 'postgres' };
  const names =
    engine === 'sqlite'
      ? await knex('sqlite_master').where({ type: 'table' }).select('name')
      : await knex('pg_tables').where({ schemaname: 'public' }).select('tablename as name');
  const tables: Record<string, unknown[]> = {};
  for (const { name } of names as { name: string }[]) {
    if (name.startsWith('sqlite_') || PRIVATE.has(name)) continue;
    const rows = (await knex(name).select('*')) as unknown[];
    tables[name] = rows
      .map((row) => JSON.stringify(sameness.of(withoutBytes(row as Record<string, unknown>))))
      .toSorted();
  }
  return tables;
}

/** Tables whose content is specific to one server: its secrets and its migrations. */
const PRIVATE = new Set(['leases', 'knex_migrations', 'knex_migrations_lock', 'settings']);

function withoutBytes(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, Buffer.isBuffer(value) ? `${value.length} bytes` : value]),
  );
}

describe.each(engines())('the same scenario by gRPC and by HTTP, on $name', (engine) => {
  let runners: ScenarioRunner[];
  const clients: HttpClient[] = [];

  beforeAll(async () => {
    const servers = [await startTestApp(engine), await startTestApp(engine), await startTestApp(engine)] as const;
    const http = servers
      .slice(1)
      .map(
        (server) =>
          new HttpClient(server.app.addresses.http as string, server.app.ca, as(server.key, server.organizationId)),
      );
    clients.push(...http);
    runners = [
      byGrpc(servers[0]),
      byHttp(servers[1], clients[0] as HttpClient, 0),
      byHttp(servers[2], clients[1] as HttpClient, -1),
    ];
  });
  afterAll(async () => {
    for (const client of clients) client.close();
    for (const { server } of runners) await server.stop();
  });

  it('returns the same responses and stores the same rows', async () => {
    const ends = [];
    for (const { server, run } of runners) {
      const responses: Record<string, JsonObject> = {};
      const sameness = new Sameness();
      for (const [name, path, fields] of SCENARIO)
        responses[name] = await run(descriptors.methods.get(path) as MethodDescriptor, fields(responses));
      ends.push({
        answers: sameness.of(responses),
        rows: await listRows(server, sameness),
        errors: server.log.lines.filter(({ level }) => level === 'error'),
      });
    }
    const [grpc, ...others] = ends;
    for (const other of others) expect(other).toEqual(grpc);
    expect(grpc?.errors).toEqual([]);
    expect(grpc?.answers).toMatchObject({
      device: { name: 'Valve', physicalDevice: { clientDeviceId: 'valve-1' } },
      twice: { code: 'physical_device_already_bound' },
      stale: { code: 'version_conflict' },
      execution: { accepted: true },
      duplicate: { duplicate: true },
      refused: { rejectionReason: 'validation_failed' },
      full: { rejectionReason: 'device_queue_full' },
      cancelled: { detail: 'cancelled' },
      nobody: { code: 'device_not_found' },
      mismatch: { code: 'organization_mismatch' },
      'in use': { code: 'query_command_in_use' },
      'rotated again': { code: 'api_key_inactive' },
      'role again': { code: 'name_taken' },
      'role in use': { code: 'role_in_use' },
      'role deleted': {},
      'last owner': { code: 'last_owner_required' },
      'member removed': { revokedApiKeys: 0 },
      'no admin': { code: 'admin_key_required' },
    });
  });
});
