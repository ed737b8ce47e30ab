import { fromBinary, toJson } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import type { MethodFacts } from '../../src/rpc/descriptors';
import { engines } from '../support/engines';
import { HttpClient, seenHttp } from '../support/http';
import { httpWays, onWay, requestJson, type HttpWay } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';

/** One of everything that an organization can have. */
interface Things {
  readonly device: string;
  readonly sensor: string;
  readonly template: string;
  readonly keyName: string;
  readonly connection: string;
  readonly media: string;
  readonly command: string;
  readonly execution: string;
  readonly apiKey: string;
  readonly member: string;
  readonly role: string;
  readonly organization: string;
}

const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
const MEDIA = '/media.v1.MediaService';
const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
const CONNECTIONS = '/connection.ConnectionService';
const ACCESS = '/organization_access_control.AccessControlService';
const ORGANIZATIONS = '/OrganizationsService';
const READINGS = '/sensorquery.v1.SensorQueryService';
const span = { from: { seconds: 0n, nanos: 0 }, to: { seconds: 3600n, nanos: 0 } };
const definition = { name: 'Command', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' };
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const template = { sensorType: 'relay', valueType: 'boolean' };

/** For each method that takes ids: a request that is right but for whose things it names. `their` is of the other organization, or of nobody; `own` is the caller's. */
const REQUESTS: Readonly<Record<string, (their: Things, own: Things) => Fields>> = {
  [`${DEVICES}/CreateDigitalDevice`]: (their) => ({ name: 'Device', physicalDevice: { clientDeviceId: 'somebody', connectionId: their.connection } }),
  [`${DEVICES}/GetDigitalDevice`]: (their) => ({ id: their.device }),
  [`${DEVICES}/UpdateDigitalDevice`]: (their) => ({ id: their.device, name: 'Mine now' }),
  [`${DEVICES}/DeleteDigitalDevice`]: (their) => ({ id: their.device }),
  [`${DEVICES}/GetConnectorKeys`]: (their, own) => ({ id: own.device, connectionId: their.connection, clientDeviceId: 'client' }),
  [`${DEVICES}/AddSensorsToDevice`]: (their, own) => ({ id: own.device, sensorTemplateIds: [their.template] }),
  [`${DEVICES}/RemoveSensorsFromDevice`]: (their, own) => ({ id: own.device, sensorIds: [their.sensor] }),
  [`${DEVICES}/UpdateDeviceSensor`]: (their, own) => ({ id: own.device, sensorId: their.sensor, sensorTemplateId: own.template }),
  [`${DEVICES}/SetSensorMappings`]: (their, own) => ({ id: own.device, mappings: [{ sensorId: their.sensor, sourcePath: 'a' }] }),
  [`${TEMPLATES}/CreateSensorTemplate`]: (their) => ({ ...template, keyNameId: their.keyName }),
  [`${TEMPLATES}/GetSensorTemplate`]: (their) => ({ id: their.template }),
  [`${TEMPLATES}/GetNormalizedKey`]: (their) => ({ id: their.keyName }),
  [`${TEMPLATES}/UpdateSensorTemplate`]: (their, own) => ({ id: their.template, keyNameId: own.keyName }),
  [`${TEMPLATES}/DeleteSensorTemplate`]: (their) => ({ id: their.template }),
  [`${TEMPLATES}/UpdateNormalizedKey`]: (their) => ({ id: their.keyName, name: 'mine now' }),
  [`${MEDIA}/GetMedia`]: (their) => ({ id: their.media }),
  [`${MEDIA}/DownloadMedia`]: (their) => ({ id: their.media, variant: 2 }),
  [`${MEDIA}/DeleteMedia`]: (their) => ({ id: their.media }),
  [`${CONNECTIONS}/GetConnection`]: (their) => ({ id: their.connection }),
  [`${CONNECTIONS}/ListDiscoveredDevices`]: (their) => ({ id: their.connection }),
  [`${CONNECTIONS}/UpdateConnection`]: (their) => ({ id: their.connection, enabled: false }),
  [`${CONNECTIONS}/TestConnection`]: (their) => ({ id: their.connection }),
  [`${CONNECTIONS}/WatchConnectionStatus`]: (their) => ({ ids: [their.connection] }),
  [`${CONNECTIONS}/DeleteConnection`]: (their) => ({ id: their.connection }),
  [`${ORGANIZATIONS}/GetOrganization`]: (their) => ({ id: their.organization }),
  [`${ORGANIZATIONS}/UpdateOrganization`]: (their) => ({ id: their.organization, readingRetentionDays: 1 }),
  [`${ACCESS}/CreateApiKey`]: (their) => ({ name: 'Key', scopes: ['gateways:write'], connectionIds: [their.connection] }),
  [`${ACCESS}/GetApiKey`]: (their) => ({ id: their.apiKey }),
  [`${ACCESS}/UpdateApiKey`]: (their) => ({ id: their.apiKey, name: 'Mine now' }),
  [`${ACCESS}/RotateApiKey`]: (their) => ({ id: their.apiKey, graceSeconds: 0 }),
  [`${ACCESS}/RevokeApiKey`]: (their) => ({ id: their.apiKey }),
  [`${ACCESS}/GetMember`]: (their) => ({ userId: their.member }),
  [`${ACCESS}/AddMember`]: (their) => ({ name: 'Somebody', roleId: their.role }),
  [`${ACCESS}/UpdateMember`]: (their, own) => ({ userId: their.member, roleId: own.role }),
  [`${ACCESS}/RemoveMember`]: (their) => ({ userId: their.member }),
  [`${ACCESS}/UpdateRole`]: (their) => ({ id: their.role, name: 'Mine now' }),
  [`${ACCESS}/DeleteRole`]: (their) => ({ id: their.role }),
  [`${COMMANDS}/CreateCommand`]: (their) => ({ id: their.device, command: definition }),
  [`${COMMANDS}/GetCommand`]: (their, own) => ({ id: own.device, commandId: their.command }),
  [`${COMMANDS}/ListCommands`]: (their) => ({ id: their.device }),
  [`${COMMANDS}/UpdateCommand`]: (their, own) => ({ id: own.device, commandId: their.command, command: definition }),
  [`${COMMANDS}/DeleteCommand`]: (their, own) => ({ id: own.device, commandId: their.command }),
  [`${COMMANDS}/PreviewEncoder`]: (their) => ({ id: their.device, customEncoder: 'function encodeDownlink() { return { bytes: [1] }; }' }),
  [`${COMMANDS}/ExecuteCommand`]: (their, own) => ({ id: own.device, commandId: their.command }),
  [`${COMMANDS}/ListExecutions`]: (their) => ({ id: their.device }),
  [`${COMMANDS}/GetExecution`]: (their) => ({ executionId: their.execution }),
  [`${COMMANDS}/CancelExecution`]: (their) => ({ executionId: their.execution }),
  [`${COMMANDS}/WatchExecutions`]: (their) => ({ id: their.device }),
  [`${READINGS}/QueryLatest`]: (their, own) => ({ sensorIds: [own.sensor], deviceIds: [their.device] }),
  [`${READINGS}/QueryRange`]: (their, own) => ({ sensorIds: [own.sensor, their.sensor], ...span }),
  [`${READINGS}/QueryAggregate`]: (their, own) => ({ sensorIds: [own.sensor, their.sensor], ...span, bucket: { count: 1, unit: 3 } }),
  [`${READINGS}/StreamReadings`]: (their) => ({ sensorIds: [their.sensor] }),
  '/gateway.v1.GatewayService/Attach': (their) => ({ message: { case: 'hello', value: { connectionId: their.connection, gatewayId: 'g', bootId: 'b', store: 1 } } }),
};

/** Ids that filter a list: whoever is not there did nothing. */
const FILTERS: readonly [string, (their: Things) => Fields][] = [
  [`${ACCESS}/ListAuditEvents`, (their) => ({ keyId: their.apiKey })],
  [`${ACCESS}/ListAuditEvents`, (their) => ({ userId: their.member })],
  [`${ACCESS}/ListAuditEvents`, (their) => ({ requestId: their.execution })],
];
/** The ids of organizations and people of the whole installation: for admin keys, which see them all. */
const ADMIN: readonly [string, (their: Things) => Fields][] = [
  [`${ORGANIZATIONS}/CreateOrganization`, (their) => ({ name: 'Third', ownerUserId: their.member })],
  [`${ORGANIZATIONS}/DeleteOrganization`, (their) => ({ id: their.organization })],
];
const OTHERS = new Set([...FILTERS, ...ADMIN].map(([path]) => path));
/** The ids of a catalogue that is the same for everybody. */
const SHARED = new Set(['/connector.ConnectorService/GetConnector', `${CONNECTIONS}/CreateConnection`]);
// Other places of ids. Named as part of a definition, these are told as violations of it, like every reference that does not resolve.
const REFERENCES: readonly [string, (their: Things, own: Things) => Fields][] = [
  [`${COMMANDS}/CreateCommand`, (their, own) => ({ id: own.device, command: { ...definition, name: 'Query', queryCommandId: their.command } })],
  [`${COMMANDS}/CreateCommand`, (their, own) => ({ id: own.device, command: { ...definition, name: 'Expect', verificationStrategy: 2, expectedSensorStates: [{ sensorId: their.sensor, valueTemplate: 'true' }] } })],
  [`${ACCESS}/CreateApiKey`, (their) => ({ name: 'Key', scopes: ['users:read'], ownerUserId: their.member })],
  ...['deviceIds', 'connectionIds', 'commandIds'].flatMap((name): [string, (their: Things, own: Things) => Fields][] => {
    const restrictions = (their: Things, own: Things): Fields => {
      const thing = name.slice(0, -3) as 'device' | 'connection' | 'command';
      return { restrictions: { [name]: [own[thing], their[thing]] } };
    };
    return [
      [`${ACCESS}/CreateApiKey`, (their, own) => ({ name: 'Key', scopes: ['users:read'], ...restrictions(their, own) })],
      [`${ACCESS}/UpdateApiKey`, (their, own) => ({ id: own.apiKey, ...restrictions(their, own) })],
    ];
  }),
  [`${ACCESS}/UpdateMember`, (their, own) => ({ userId: own.member, roleId: their.role })],
  [`${DEVICES}/UpdateDeviceSensor`, (their, own) => ({ id: own.device, sensorId: own.sensor, sensorTemplateId: their.template })],
  [`${DEVICES}/UpdateDigitalDevice`, (their, own) => ({ id: own.device, physicalDevice: { connectionId: their.connection } })],
  [`${DEVICES}/CreateDigitalDevice`, (their, own) => ({ name: 'Device', images: [{ mediaId: own.media }, { mediaId: their.media }] })],
  [`${DEVICES}/UpdateDigitalDevice`, (their, own) => ({ id: own.device, images: [{ mediaId: their.media }] })],
  [`${READINGS}/QueryLatest`, (their) => ({ sensorIds: [their.sensor] })],
  [`${READINGS}/StreamReadings`, (their, own) => ({ sensorIds: [own.sensor], deviceIds: [their.device] })],
];

const takesIds = (facts: MethodFacts): boolean => JSON.stringify(fieldNames(facts.request.typeName)).match(/Ids?"/) !== null || fieldNames(facts.request.typeName).includes('id');
const nobody: Things = Object.fromEntries(['device', 'sensor', 'template', 'keyName', 'connection', 'media', 'command', 'execution', 'apiKey', 'member', 'role', 'organization'].map((thing, at) => [thing, `0190a0a0-0000-7000-8000-0000000000${10 + at}`])) as unknown as Things;

function fieldNames(typeName: string): string[] {
  const message = descriptors.registry.getMessage(typeName);
  return (message?.fields ?? []).flatMap((field) => {
    const own = field.localName === 'organizationId' || field.localName === 'triggerId' ? [] : [field.localName];
    const isOurs = field.message && !field.message.typeName.startsWith('google.');
    return isOurs && field.message ? [...own, ...fieldNames(field.message.typeName)] : own;
  });
}

const overHttp = [...Object.entries(REQUESTS), ...REFERENCES].flatMap(([path, request]) => httpWays(descriptors.methods.get(path) as MethodFacts).map((way) => [`${way.verb} ${way.route}`, way, request] as const));

describe('the table of this test', () => {
  it('knows every method that takes ids', () => {
    const withIds = [...descriptors.methods.values()].filter((facts) => !facts.service.startsWith('grpc.') && takesIds(facts)).map((facts) => facts.path);
    expect(withIds.filter((path) => !SHARED.has(path) && !OTHERS.has(path) && !(path in REQUESTS))).toEqual([]);
  });
});

describe.each(engines())('what belongs to another organization, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let caller: Record<string, string>;
  let own: Things;
  let theirs: Things;
  let before: unknown;

  const ask = async (path: string, fields: Fields, headers: Record<string, string>): Promise<Record<string, unknown>> => {
    const facts = descriptors.methods.get(path) as MethodFacts;
    const { answer, error } = await server.send(facts, encode(facts.request, fields), headers);
    if (!answer) throw new Error(`${path}: ${error?.message}`);
    const method = descriptors.registry.getService(facts.service)?.methods.find(({ name }) => path.endsWith(`/${name}`));
    if (!method) throw new Error(`no ${path}`);
    return toJson(method.output, fromBinary(method.output, answer)) as Record<string, unknown>;
  };

  /** Makes one of everything. */
  const furnish = async (headers: Record<string, string>): Promise<Things> => {
    const make = async (path: string, fields: Fields): Promise<string> => (await ask(path, fields, headers))['id'] as string;
    const connection = await make(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: 'Gateway' });
    const keyName = await make(`${TEMPLATES}/CreateNormalizedKey`, { name: 'relay of ours' });
    const templateId = await make(`${TEMPLATES}/CreateSensorTemplate`, { ...template, keyNameId: keyName });
    const media = await make(`${MEDIA}/UploadMedia`, { filename: 'pump.png', chunk: PNG });
    const device = await make(`${DEVICES}/CreateDigitalDevice`, { name: 'Device', physicalDevice: { clientDeviceId: 'client', connectionId: connection }, images: [{ mediaId: media }] });
    const { sensors } = (await ask(`${DEVICES}/AddSensorsToDevice`, { id: device, sensorTemplateIds: [templateId] }, headers)) as { sensors: { id: string }[] };
    const command = await make(`${COMMANDS}/CreateCommand`, { id: device, command: { ...definition, name: 'First' } });
    const { executionId } = (await ask(`${COMMANDS}/ExecuteCommand`, { id: device, commandId: command }, headers)) as { executionId: string };
    const { apiKey } = (await ask(`${ACCESS}/CreateApiKey`, { name: 'Key', scopes: ['users:read'] }, headers)) as { apiKey: { id: string } };
    const role = await make(`${ACCESS}/CreateRole`, { name: 'Of ours', scopes: ['devices:read'] });
    const { userId } = (await ask(`${ACCESS}/AddMember`, { name: 'Somebody', roleId: role }, headers)) as { userId: string };
    return { connection, media, keyName, template: templateId, device, sensor: sensors[0]?.id ?? '', command, execution: executionId, apiKey: apiKey.id, member: userId, role, organization: headers['x-organization-id'] ?? '' };
  };

  /** All that the other organization would see change. */
  const snapshot = async (): Promise<unknown> => {
    const headers = as(server.key, server.organizationId);
    const all = [
      await ask(`${DEVICES}/GetDigitalDevice`, { id: theirs.device }, headers),
      await ask(`${COMMANDS}/ListCommands`, { id: theirs.device }, headers),
      await ask(`${CONNECTIONS}/GetConnection`, { id: theirs.connection }, headers),
      await ask(`${TEMPLATES}/ListSensorTemplates`, { pageSize: 5 }, headers),
      await ask(`${ACCESS}/ListApiKeys`, {}, headers),
      await ask(`${ACCESS}/ListMembers`, {}, headers),
      await ask(`${ACCESS}/ListRoles`, {}, headers),
      await ask(`${ORGANIZATIONS}/GetOrganization`, { id: theirs.organization }, headers),
      await ask(`${COMMANDS}/GetExecution`, { executionId: theirs.execution }, headers),
      await ask(`${MEDIA}/GetMedia`, { id: theirs.media }, headers),
    ];
    // A link says until when it is valid, a key when it asked for this, and no token of a page is twice the same.
    return JSON.parse(JSON.stringify(all, (name, value: unknown) => (name.startsWith('lastUsed') || name === 'nextPageToken' ? undefined : value)).replaceAll(/\?organization=[^"]+/g, ''));
  };

  /** The answer with every id of it taken out: what is left must not tell whether the thing exists. */
  const answerTo = async (path: string, request: (their: Things, own: Things) => Fields, things: Things): Promise<unknown> => {
    const facts = descriptors.methods.get(path) as MethodFacts;
    const { code, error } = await server.send(facts, encode(facts.request, request(things, own)), caller);
    const text = JSON.stringify({ code, reason: error?.reason, message: error?.message, violations: error?.violations, metadata: error?.metadata });
    return Object.values(things).reduce((told, id) => told.replaceAll(id, 'ID'), text);
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const organizationId = await server.organization('The caller');
    caller = as((await server.newKey(organizationId)).key, organizationId);
    theirs = await furnish(as(server.key, server.organizationId));
    own = await furnish(caller);
    before = await snapshot();
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  it.each(Object.entries(REQUESTS))('%s does not find it', async (path, request) => {
    const facts = descriptors.methods.get(path) as MethodFacts;
    const { code, error } = await server.send(facts, encode(facts.request, request(theirs, own)), caller);
    expect([status.NOT_FOUND, status.INVALID_ARGUMENT]).toContain(code);
    expect(error?.reason).toMatch(/_not_found$|^validation_failed$/);
  });

  it.each([...Object.entries(REQUESTS), ...REFERENCES])('%s answers as if nobody had it', async (path, request) => {
    const toTheirs = await answerTo(path, request, theirs);
    expect(toTheirs).toEqual(await answerTo(path, request, nobody));
    expect(toTheirs).not.toContain('"code":0');
  });

  /** What a call over HTTP is refused with, every id of it taken out. */
  const refusal = async (way: HttpWay, request: (their: Things, own: Things) => Fields, things: Things): Promise<unknown> => {
    const { url, body } = onWay(way, requestJson(way.facts, request(things, own)));
    const { requestId: _, ...seen } = seenHttp(await http.send(way.verb, url, { headers: caller, ...(body && { body }) }));
    const text = JSON.stringify(seen);
    return Object.values(things).reduce((told, id) => told.replaceAll(id, 'ID'), text);
  };

  it.each(overHttp)('%s over HTTP answers as if nobody had it', async (_name, way, request) => {
    const toTheirs = await refusal(way, request, theirs);
    expect(toTheirs).toEqual(await refusal(way, request, nobody));
    expect(toTheirs).toMatch(/^\{"status":(404,"code":"\w+_not_found"|400,"code":"validation_failed")/);
  });

  it.each(FILTERS)('%s shows nothing where it filters by it', async (path, request) => {
    const answers = [];
    for (const things of [theirs, nobody]) answers.push(await ask(path, request(things), caller));
    expect(answers).toEqual([{}, {}]);
  });

  it.each(ADMIN)('%s tells nothing of it to a key that is none of an admin', async (path, request) => {
    for (const things of [theirs, nobody]) expect(JSON.parse((await answerTo(path, request, things)) as string)).toMatchObject({ code: status.PERMISSION_DENIED, reason: 'admin_key_required' });
  });

  it('shows none of it in a list', async () => {
    const all = JSON.stringify([
      await ask(`${DEVICES}/ListDigitalDevices`, {}, caller),
      await ask(`${CONNECTIONS}/ListConnections`, {}, caller),
      await ask(`${TEMPLATES}/ListSensorTemplates`, {}, caller),
      await ask(`${TEMPLATES}/ListNormalizedKeys`, {}, caller),
      await ask(`${ACCESS}/ListApiKeys`, {}, caller),
      await ask(`${ACCESS}/ListMembers`, {}, caller),
      await ask(`${ACCESS}/ListRoles`, {}, caller),
      await ask(`${ORGANIZATIONS}/ListOrganizations`, {}, caller),
    ]);
    for (const id of Object.values(theirs)) expect(all).not.toContain(id);
    expect(all).toContain('"total":1');
  });

  it('is what it was before', async () => {
    expect(await snapshot()).toEqual(before);
  });
});
