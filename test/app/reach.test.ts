import { fromBinary, toBinary, toJson } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { asset } from '../../src/kernel/assets';
import { SCOPES } from '../../src/kernel/scopes';
import { Descriptors, type MethodFacts } from '../../src/rpc/descriptors';
import { engines } from '../support/engines';
import { HttpClient, seenHttp } from '../support/http';
import { limitedKey, type Limits } from '../support/limitedKeys';
import { anyPath, HTTP_WAYS, httpWays, onWay, requestJson, type HttpWay } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';

/** What a limited key sees some of. */
interface Things {
  readonly device: string;
  readonly connection: string;
  readonly sensor: string;
  readonly command: string;
  readonly execution: string;
  readonly media: string;
}

type Headers = Readonly<Record<string, string>>;

const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const MEDIA = '/media.v1.MediaService';
const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
const CONNECTIONS = '/connection.ConnectionService';
const READINGS = '/sensorquery.v1.SensorQueryService';
const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==', 'base64');
/** The number of the option in plantroom/v1/options.proto. */
const LIMITED_KEYS = 50007;
const KEY_SCOPES = SCOPES.filter((scope) => scope !== 'gateways:write');
const span = { from: { seconds: 0n, nanos: 0 }, to: { seconds: 3600n, nanos: 0 } };
const definition = { name: 'Command', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' };
const badDefinition = { ...definition, name: '', expectedSensorStates: [{ sensorId: 'x', valueTemplate: '{{' }] };
const script = 'function encodeDownlink() { return { bytes: [1] }; }';

/** For each method that names things of which a limited key sees some: a request that is right but for them, and one with other faults beside. `own` lies inside. */
const REQUESTS: Readonly<Record<string, readonly [request: (asked: Things, own: Things) => Fields, faults: (asked: Things, own: Things) => Fields]>> = {
  [`${DEVICES}/GetDigitalDevice`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: ` ${device}` })],
  [`${DEVICES}/UpdateDigitalDevice`]: [({ device }) => ({ id: device, name: 'Mine now' }), ({ device, media }) => ({ id: device, name: ' ', images: [{ mediaId: media }, { mediaId: media }], etag: 'x' })],
  [`${DEVICES}/DeleteDigitalDevice`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: device, etag: 'x' })],
  [`${DEVICES}/GetConnectorKeys`]: [({ device }, own) => ({ id: device, connectionId: own.connection, clientDeviceId: 'client' }), ({ device, connection }) => ({ id: device, connectionId: connection, clientDeviceId: '' })],
  [`${DEVICES}/AddSensorsToDevice`]: [({ device }) => ({ id: device, sensorTemplateIds: [device] }), ({ device }) => ({ id: device, sensorTemplateIds: [device, device, ''] })],
  [`${DEVICES}/RemoveSensorsFromDevice`]: [({ device, sensor }) => ({ id: device, sensorIds: [sensor] }), ({ device, sensor }) => ({ id: device, sensorIds: [sensor, sensor] })],
  [`${DEVICES}/UpdateDeviceSensor`]: [({ device, sensor }) => ({ id: device, sensorId: sensor, sensorTemplateId: device }), ({ device, sensor }) => ({ id: device, sensorId: sensor, sensorTemplateId: '' })],
  [`${DEVICES}/SetSensorMappings`]: [({ device, sensor }) => ({ id: device, mappings: [{ sensorId: sensor, sourcePath: 'a' }] }), ({ device, sensor }) => ({ id: device, mappings: [{ sensorId: sensor, sourcePath: 'a..b' }] })],
  [`${MEDIA}/GetMedia`]: [({ media }) => ({ id: media }), ({ media }) => ({ id: ` ${media}` })],
  [`${MEDIA}/DownloadMedia`]: [({ media }) => ({ id: media, variant: 2 }), ({ media }) => ({ id: media, variant: 99 })],
  [`${MEDIA}/DeleteMedia`]: [({ media }) => ({ id: media }), ({ media }) => ({ id: `${media}\n` })],
  [`${CONNECTIONS}/GetConnection`]: [({ connection }) => ({ id: connection }), ({ connection }) => ({ id: ` ${connection}` })],
  [`${CONNECTIONS}/ListDiscoveredDevices`]: [({ connection }) => ({ id: connection }), ({ connection }) => ({ id: connection, pageToken: 'forged', pageSize: 3 })],
  [`${CONNECTIONS}/WatchConnectionStatus`]: [({ connection }, own) => ({ ids: [own.connection, connection] }), ({ connection }) => ({ ids: [connection, connection] })],
  [`${COMMANDS}/CreateCommand`]: [({ device }) => ({ id: device, command: definition }), ({ device, command }) => ({ id: device, command: { ...badDefinition, queryCommandId: command } })],
  [`${COMMANDS}/GetCommand`]: [({ device, command }) => ({ id: device, commandId: command }), ({ device, command }) => ({ id: device, commandId: ` ${command}` })],
  [`${COMMANDS}/ListCommands`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: device, pageToken: 'forged' })],
  [`${COMMANDS}/UpdateCommand`]: [({ device, command }) => ({ id: device, commandId: command, command: definition }), ({ device, command }) => ({ id: device, commandId: command, command: badDefinition, etag: 'x' })],
  [`${COMMANDS}/DeleteCommand`]: [({ device, command }) => ({ id: device, commandId: command }), ({ device, command }) => ({ id: device, commandId: command, etag: 'x' })],
  [`${COMMANDS}/PreviewEncoder`]: [({ device }) => ({ id: device, customEncoder: script }), ({ device }) => ({ id: device, customEncoder: '', fPort: 999 })],
  [`${COMMANDS}/ExecuteCommand`]: [({ device, command }) => ({ id: device, commandId: command }), ({ device, command }) => ({ id: device, commandId: command, params: { unknown: 1 }, triggerId: 'not an id' })],
  [`${COMMANDS}/ListExecutions`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: device, cursor: 'forged', limit: -1 })],
  [`${COMMANDS}/GetExecution`]: [({ execution }) => ({ executionId: execution }), ({ execution }) => ({ executionId: ` ${execution}` })],
  [`${COMMANDS}/CancelExecution`]: [({ execution }) => ({ executionId: execution }), ({ execution }) => ({ executionId: ` ${execution}` })],
  [`${COMMANDS}/WatchExecutions`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: device, resumeToken: 'forged' })],
  [`${READINGS}/QueryLatest`]: [({ sensor }, own) => ({ sensorIds: [own.sensor, sensor] }), ({ device, sensor }) => ({ sensorIds: [sensor, sensor], deviceIds: [device] })],
  [`${READINGS}/QueryRange`]: [({ sensor }, own) => ({ sensorIds: [own.sensor, sensor], ...span }), ({ sensor }) => ({ sensorIds: [sensor], ...span, pageToken: 'forged', pageSize: -1 })],
  [`${READINGS}/QueryAggregate`]: [({ sensor }, own) => ({ sensorIds: [own.sensor, sensor], ...span, bucket: { count: 1, unit: 3 } }), ({ sensor }) => ({ sensorIds: [sensor], ...span, bucket: { count: -1, unit: 3 } })],
  [`${READINGS}/StreamReadings`]: [({ device }, own) => ({ sensorIds: [own.sensor], deviceIds: [device] }), ({ sensor }) => ({ sensorIds: [sensor, sensor], resumeToken: 'forged' })],
};
const MORE: readonly [string, (asked: Things, own: Things) => Fields][] = [
  [`${DEVICES}/UpdateDigitalDevice`, ({ connection }, own) => ({ id: own.device, physicalDevice: { connectionId: connection } })],
  [`${DEVICES}/UpdateDigitalDevice`, ({ connection }, own) => ({ id: own.device, physicalDevice: { connectionId: connection, clientDeviceId: 'elsewhere', configuration: { a: 1 } }, images: [{ mediaId: own.media }] })],
  [`${DEVICES}/UpdateDigitalDevice`, ({ media }, own) => ({ id: own.device, images: [{ mediaId: media }, { mediaId: own.media }] })],
  [`${DEVICES}/UpdateDigitalDevice`, ({ media }, own) => ({ id: own.device, name: ' ', images: [{ mediaId: media }, { mediaId: own.media }] })],
  [`${DEVICES}/UpdateDigitalDevice`, ({ media, connection }, own) => ({ id: own.device, images: [{ mediaId: media }], physicalDevice: { connectionId: connection } })],
  [`${DEVICES}/GetConnectorKeys`, ({ connection }, own) => ({ id: own.device, connectionId: connection, clientDeviceId: 'client' })],
  [`${DEVICES}/RemoveSensorsFromDevice`, ({ sensor }, own) => ({ id: own.device, sensorIds: [sensor] })],
  [`${DEVICES}/SetSensorMappings`, ({ sensor }, own) => ({ id: own.device, mappings: [{ sensorId: sensor, sourcePath: 'a' }] })],
  [`${COMMANDS}/GetCommand`, ({ command }, own) => ({ id: own.device, commandId: command })],
  [`${COMMANDS}/UpdateCommand`, ({ command }, own) => ({ id: own.device, commandId: command, command: definition })],
  [`${COMMANDS}/DeleteCommand`, ({ command }, own) => ({ id: own.device, commandId: command })],
  [`${COMMANDS}/ExecuteCommand`, ({ command }, own) => ({ id: own.device, commandId: command })],
  [`${COMMANDS}/ExecuteCommand`, ({ command }, own) => ({ id: own.device, commandId: command, triggerId: 'not an id' })],
  [`${COMMANDS}/CreateCommand`, ({ command, sensor }, own) => ({ id: own.device, command: { ...definition, name: 'Refers', verificationStrategy: 2, queryCommandId: command, expectedSensorStates: [{ sensorId: sensor, valueTemplate: 'true' }] } })],
  [`${READINGS}/QueryLatest`, ({ device }, own) => ({ sensorIds: [own.sensor], deviceIds: [own.device, device] })],
  [`${READINGS}/StreamReadings`, ({ sensor }) => ({ sensorIds: [sensor] })],
];

const limited = [...descriptors.methods.values()].filter(({ limited: { inside } }) => inside.length > 0);
const nobody: Things = { device: nobodys(1), connection: nobodys(2), sensor: nobodys(3), command: nobodys(4), execution: nobodys(5), media: nobodys(6) };
const cases = [...Object.entries(REQUESTS).flatMap(([path, [request, faults]]) => [[path, request], [path, faults]] as const), ...MORE];

function nobodys(at: number): string {
  return `0190a0a0-0000-7000-8000-00000000000${at}`;
}

function factsOf(path: string): MethodFacts {
  const facts = descriptors.methods.get(path);
  if (!facts) throw new Error(`no ${path}`);
  return facts;
}

/** Ids that are told, whosever they are, are no difference. */
function without(text: string, things: Things): string {
  return Object.values(things).reduce((told, id) => told.replaceAll(id, 'ID'), text);
}

/** A link says until when it is valid. */
function unlinked(answer: unknown): string {
  return JSON.stringify(answer).replaceAll(/\?organization=[^"]+/g, '');
}

it('knows every method that names things of which a limited key sees some', () => {
  expect(limited.map(({ path }) => path).filter((path) => !(path in REQUESTS))).toEqual([]);
  expect(Object.keys(REQUESTS).filter((path) => factsOf(path).limited.inside.length === 0)).toEqual([]);
});

it('knows every method whose handler alone keeps to the reach', () => {
  const unnamed = [...descriptors.methods.values()].filter(({ limited: { devices, commands, inside } }) => (devices === 'inside' || commands === 'inside') && inside.length === 0);
  const ofKeys = unnamed.filter(({ service }) => service === 'organization_access_control.AccessControlService');
  expect(unnamed.filter((facts) => !ofKeys.includes(facts)).map(({ path }) => path)).toEqual([`${CONNECTIONS}/ListConnections`, `${DEVICES}/ListDigitalDevices`]);
  expect(ofKeys.every(({ path }) => path.includes('ApiKey'))).toBe(true);
});

it('does not start with a method that says nothing of limited keys', () => {
  const files = fromBinary(FileDescriptorSetSchema, asset('image.binpb'));
  const method = files.file.flatMap(({ service }) => service).find(({ name }) => name === 'DigitalDeviceService')?.method.find(({ name }) => name === 'GetDigitalDevice');
  if (!method?.options?.$unknown) throw new Error('the image has no options');
  method.options.$unknown = method.options.$unknown.filter(({ no }) => no !== LIMITED_KEYS);
  expect(() => new Descriptors(toBinary(FileDescriptorSetSchema, files))).toThrow(`(plantroom.v1.limited_keys) that says what limited keys may do: ${DEVICES}/GetDigitalDevice`);
});

describe.each(engines())('what lies outside the reach of a limited key, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let whole: Headers;
  let inside: Things;
  let second: Things;
  let outside: Things;
  let foreign: Things;
  const keys: Record<string, Headers> = {};

  const ask = async (path: string, fields: Fields, headers: Headers): Promise<Record<string, unknown>> => {
    const facts = factsOf(path);
    const { answer, error } = await server.send(facts, encode(facts.request, fields), headers);
    if (!answer) throw new Error(`${path}: ${error?.message}`);
    return toJson(facts.response, fromBinary(facts.response, answer)) as Record<string, unknown>;
  };

  /** A device on a connection of its own with one of everything. */
  const furnish = async (headers: Headers, name: string): Promise<Things> => {
    const make = async (path: string, fields: Fields): Promise<string> => (await ask(path, fields, headers))['id'] as string;
    const connection = await make(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name });
    const keyName = await make(`${TEMPLATES}/CreateNormalizedKey`, { name: `relay of ${name}` });
    const template = await make(`${TEMPLATES}/CreateSensorTemplate`, { sensorType: 'relay', valueType: 'boolean', keyNameId: keyName });
    const media = await make(`${MEDIA}/UploadMedia`, { filename: 'pump.png', chunk: PNG });
    const device = await make(`${DEVICES}/CreateDigitalDevice`, { name, physicalDevice: { clientDeviceId: 'client', connectionId: connection }, images: [{ mediaId: media }] });
    const { sensors } = (await ask(`${DEVICES}/AddSensorsToDevice`, { id: device, sensorTemplateIds: [template] }, headers)) as { sensors: { id: string }[] };
    const command = await make(`${COMMANDS}/CreateCommand`, { id: device, command: { ...definition, name: 'First' } });
    const { executionId } = (await ask(`${COMMANDS}/ExecuteCommand`, { id: device, commandId: command }, headers)) as { executionId: string };
    return { device, connection, sensor: sensors[0]?.id ?? '', command, execution: executionId, media };
  };

  /** The answer to a request that names these things, without their ids. */
  const told = async (path: string, request: (asked: Things, own: Things) => Fields, things: Things, headers: Headers, own: Things): Promise<string> => {
    const facts = factsOf(path);
    const { code, error } = await server.send(facts, encode(facts.request, request(things, own)), headers);
    return without(JSON.stringify({ code, reason: error?.reason, message: error?.message, violations: error?.violations, metadata: error?.metadata }), things);
  };

  const toldOverHttp = async (way: HttpWay, request: (asked: Things, own: Things) => Fields, things: Things, headers: Headers): Promise<string> => {
    const { url, body } = onWay(way, requestJson(way.facts, request(things, inside)));
    const { requestId: _, ...seen } = seenHttp(await http.send(way.verb, url, { headers, ...(body && { body }) }));
    return without(JSON.stringify(seen), things);
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const { organizationId } = server;
    whole = as((await server.newKey(organizationId, { scopes: KEY_SCOPES })).key, organizationId);
    inside = await furnish(whole, 'Inside');
    outside = await furnish(whole, 'Outside');
    const other = await server.organization('Another organization');
    foreign = await furnish(as((await server.newKey(other)).key, other), 'Foreign');
    const make = async (path: string, fields: Fields): Promise<string> => (await ask(path, fields, whole))['id'] as string;
    const command = await make(`${COMMANDS}/CreateCommand`, { id: inside.device, command: { ...definition, name: 'Second' } });
    const { executionId } = (await ask(`${COMMANDS}/ExecuteCommand`, { id: inside.device, commandId: command }, whole)) as { executionId: string };
    second = { ...inside, command, execution: executionId };
    const limits: Record<string, Limits> = {
      'by ids': { deviceIds: [inside.device], connectionIds: [inside.connection] },
      'by a connection': { connectionIds: [inside.connection] },
      'to devices and commands': { connectionIds: [inside.connection], commandIds: [inside.command, outside.command] },
      'to commands': { commandIds: [inside.command] },
    };
    for (const [name, limit] of Object.entries(limits)) keys[name] = as(await limitedKey(server, organizationId, limit, KEY_SCOPES), organizationId);
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  it.each(['by ids', 'by a connection', 'to devices and commands'])('is not found, letter by letter, with a key limited %s', async (name) => {
    const headers = keys[name] as Headers;
    const different: unknown[] = [];
    for (const [path, request] of cases) {
      if (name.includes('commands') && factsOf(path).limited.commands === 'refused') continue;
      const answers = { outside: await told(path, request, outside, headers, inside), foreign: await told(path, request, foreign, headers, inside), nobody: await told(path, request, nobody, headers, inside) };
      const isRefused = !answers.outside.includes('"code":0');
      if (!isRefused || answers.outside !== answers.nobody || answers.outside !== answers.foreign) different.push({ path, ...answers });
    }
    expect(different).toEqual([]);
  });

  it('is told in the words in which an unlimited key is told of what nobody has', async () => {
    const different: unknown[] = [];
    for (const [path, request] of cases.filter(([, one], at) => at % 2 === 0 || MORE.some(([, more]) => more === one))) {
      const answers = { limited: await told(path, request, outside, keys['by a connection'] as Headers, inside), unlimited: await told(path, request, nobody, whole, inside) };
      if (answers.limited !== answers.unlimited) different.push({ path, ...answers });
    }
    expect(different).toEqual([]);
  });

  it('is not found over HTTP either', async () => {
    const different: unknown[] = [];
    const headers = keys['by a connection'] as Headers;
    for (const [path, request] of cases) {
      for (const way of httpWays(factsOf(path))) {
        const answers = { outside: await toldOverHttp(way, request, outside, headers), nobody: await toldOverHttp(way, request, nobody, headers) };
        const isRefused = /^\{"status":(404|400),/.test(answers.outside);
        if (!isRefused || answers.outside !== answers.nobody) different.push({ way: `${way.verb} ${way.route}`, ...answers });
      }
    }
    expect(different).toEqual([]);
  });

  it('is not found where only the command is, with a key limited to commands', async () => {
    const headers = keys['to commands'] as Headers;
    const requests = cases.filter(([path, request]) => factsOf(path).limited.commands !== 'refused' && JSON.stringify(plain(request(second, inside))).match(new RegExp(`${second.command}|${second.execution}`)));
    const different: unknown[] = [];
    for (const [path, request] of requests) {
      const unknown = { ...inside, command: nobody.command, execution: nobody.execution };
      const answers = { outside: await told(path, request, second, headers, inside), nobody: await told(path, request, unknown, headers, inside) };
      if (answers.outside !== answers.nobody || answers.outside.includes('"code":0')) different.push({ path, ...answers });
    }
    expect(different).toEqual([]);
    expect(requests.map(([path]) => path)).toEqual(expect.arrayContaining([`${COMMANDS}/GetCommand`, `${COMMANDS}/ExecuteCommand`, `${COMMANDS}/GetExecution`, `${COMMANDS}/CancelExecution`]));
    // Where the device is not there, that is said first, as to everybody.
    const stranger = { ...second, device: nobody.device };
    expect(await told(`${COMMANDS}/GetCommand`, (asked) => ({ id: asked.device, commandId: asked.command }), stranger, headers, inside)).toContain('device_not_found');
  });

  it('leaves what is inside as it is', async () => {
    const reads: [string, Fields][] = [
      [`${DEVICES}/GetDigitalDevice`, { id: inside.device }],
      [`${COMMANDS}/GetCommand`, { id: inside.device, commandId: inside.command }],
      [`${COMMANDS}/GetExecution`, { executionId: inside.execution }],
      [`${CONNECTIONS}/GetConnection`, { id: inside.connection }],
      [`${MEDIA}/GetMedia`, { id: inside.media }],
    ];
    for (const [path, fields] of reads) {
      const expected = unlinked(await ask(path, fields, whole));
      for (const name of Object.keys(keys)) expect([path, name, unlinked(await ask(path, fields, keys[name] as Headers))]).toEqual([path, name, expected]);
    }
    await ask(`${COMMANDS}/ExecuteCommand`, { id: inside.device, commandId: inside.command }, keys['to commands'] as Headers);
  });

  it.each([...descriptors.methods.values()].filter(({ limited: { devices, commands } }) => devices === 'refused' || commands === 'refused').map((facts) => [facts.path, facts] as const))('%s refuses the keys that it does not serve', async (_path, facts) => {
    if (facts.scope === 'gateways:write') return; // no limited key holds it
    const refusals = [...(facts.limited.devices === 'refused' ? ['by ids', 'by a connection'] : []), ...(facts.limited.commands === 'refused' ? ['to commands', 'to devices and commands'] : [])];
    for (const name of refusals) {
      const reason = facts.adminOnly ? 'admin_key_required' : 'scope_missing';
      expect(await server.send(facts, new Uint8Array(), keys[name] as Headers)).toMatchObject({ code: status.PERMISSION_DENIED, error: { reason } });
      const ways = HTTP_WAYS.filter(([, way]) => way.facts === facts);
      for (const [, way] of ways) expect(seenHttp(await http.send(way.verb, anyPath(way), { headers: keys[name] as Headers }))).toMatchObject({ status: 403, code: reason });
    }
  });
});

function plain(fields: Fields): unknown {
  return JSON.parse(JSON.stringify(fields, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)));
}
