import { fromBinary, toBinary, toJson } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { readAsset } from '../../src/kernel/assets';
import { SCOPES } from '../../src/kernel/scopes';
import { Descriptors, type MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { sqliteOnly } from '../support/engines';
import { HttpClient, parseHttpError } from '../support/http';
import { createRestrictedKey, type Limits } from '../support/restrictedKeys';
import { anyPath, HTTP_WAYS, httpWays, buildRequest, requestJson, type HttpWay } from '../support/restCalls';
import { as, descriptors, encode, startTestApp, type Fields, type TestApp } from '../support/testApp';

/** Resources of which a restricted key sees some. */
interface Resources {
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
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);
/** The number of the option in plantroom/v1/options.proto. */
const RESTRICTED_KEYS = 50007;
const KEY_SCOPES = SCOPES.filter((scope) => scope !== 'gateways:write');
const span = { from: { seconds: 0n, nanos: 0 }, to: { seconds: 3600n, nanos: 0 } };
const definition = { name: 'Command', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' };
const badDefinition = { ...definition, name: '', expectedSensorStates: [{ sensorId: 'x', valueTemplate: '{{' }] };
const script = 'function encodeDownlink() { return { bytes: [1] }; }';

/**
 * For each method that names resources of which a restricted key sees some: a request that is valid except for them,
 * and one with additional violations. `own` is inside the scope.
 */
const REQUESTS: Readonly<
  Record<
    string,
    readonly [
      request: (requested: Resources, own: Resources) => Fields,
      withViolations: (requested: Resources, own: Resources) => Fields,
    ]
  >
> = {
  [`${DEVICES}/GetDigitalDevice`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: ` ${device}` })],
  [`${DEVICES}/UpdateDigitalDevice`]: [
    ({ device }) => ({ id: device, name: 'Mine now' }),
    ({ device, media }) => ({ id: device, name: ' ', images: [{ mediaId: media }, { mediaId: media }], etag: 'x' }),
  ],
  [`${DEVICES}/DeleteDigitalDevice`]: [({ device }) => ({ id: device }), ({ device }) => ({ id: device, etag: 'x' })],
  [`${DEVICES}/GetConnectorKeys`]: [
    ({ device }, own) => ({ id: device, connectionId: own.connection, clientDeviceId: 'client' }),
    ({ device, connection }) => ({ id: device, connectionId: connection, clientDeviceId: '' }),
  ],
  [`${DEVICES}/AddSensorsToDevice`]: [
    ({ device }) => ({ id: device, sensorTemplateIds: [device] }),
    ({ device }) => ({ id: device, sensorTemplateIds: [device, device, ''] }),
  ],
  [`${DEVICES}/RemoveSensorsFromDevice`]: [
    ({ device, sensor }) => ({ id: device, sensorIds: [sensor] }),
    ({ device, sensor }) => ({ id: device, sensorIds: [sensor, sensor] }),
  ],
  [`${DEVICES}/UpdateDeviceSensor`]: [
    ({ device, sensor }) => ({ id: device, sensorId: sensor, sensorTemplateId: device }),
    ({ device, sensor }) => ({ id: device, sensorId: sensor, sensorTemplateId: '' }),
  ],
  [`${DEVICES}/SetSensorMappings`]: [
    ({ device, sensor }) => ({ id: device, mappings: [{ sensorId: sensor, sourcePath: 'a' }] }),
    ({ device, sensor }) => ({ id: device, mappings: [{ sensorId: sensor, sourcePath: 'a..b' }] }),
  ],
  [`${MEDIA}/GetMedia`]: [({ media }) => ({ id: media }), ({ media }) => ({ id: ` ${media}` })],
  [`${MEDIA}/DownloadMedia`]: [({ media }) => ({ id: media, variant: 2 }), ({ media }) => ({ id: media, variant: 99 })],
  [`${MEDIA}/DeleteMedia`]: [({ media }) => ({ id: media }), ({ media }) => ({ id: `${media}\n` })],
  [`${CONNECTIONS}/GetConnection`]: [
    ({ connection }) => ({ id: connection }),
    ({ connection }) => ({ id: ` ${connection}` }),
  ],
  [`${CONNECTIONS}/ListDiscoveredDevices`]: [
    ({ connection }) => ({ id: connection }),
    ({ connection }) => ({ id: connection, pageToken: 'forged', pageSize: 3 }),
  ],
  [`${CONNECTIONS}/WatchConnectionStatus`]: [
    ({ connection }, own) => ({ ids: [own.connection, connection] }),
    ({ connection }) => ({ ids: [connection, connection] }),
  ],
  [`${COMMANDS}/CreateCommand`]: [
    ({ device }) => ({ id: device, command: definition }),
    ({ device, command }) => ({ id: device, command: { ...badDefinition, queryCommandId: command } }),
  ],
  [`${COMMANDS}/GetCommand`]: [
    ({ device, command }) => ({ id: device, commandId: command }),
    ({ device, command }) => ({ id: device, commandId: ` ${command}` }),
  ],
  [`${COMMANDS}/ListCommands`]: [
    ({ device }) => ({ id: device }),
    ({ device }) => ({ id: device, pageToken: 'forged' }),
  ],
  [`${COMMANDS}/UpdateCommand`]: [
    ({ device, command }) => ({ id: device, commandId: command, command: definition }),
    ({ device, command }) => ({ id: device, commandId: command, command: badDefinition, etag: 'x' }),
  ],
  [`${COMMANDS}/DeleteCommand`]: [
    ({ device, command }) => ({ id: device, commandId: command }),
    ({ device, command }) => ({ id: device, commandId: command, etag: 'x' }),
  ],
  [`${COMMANDS}/PreviewEncoder`]: [
    ({ device }) => ({ id: device, customEncoder: script }),
    ({ device }) => ({ id: device, customEncoder: '', fPort: 999 }),
  ],
  [`${COMMANDS}/ExecuteCommand`]: [
    ({ device, command }) => ({ id: device, commandId: command }),
    ({ device, command }) => ({ id: device, commandId: command, params: { unknown: 1 }, triggerId: 'not an id' }),
  ],
  [`${COMMANDS}/ListExecutions`]: [
    ({ device }) => ({ id: device }),
    ({ device }) => ({ id: device, cursor: 'forged', limit: -1 }),
  ],
  [`${COMMANDS}/GetExecution`]: [
    ({ execution }) => ({ executionId: execution }),
    ({ execution }) => ({ executionId: ` ${execution}` }),
  ],
  [`${COMMANDS}/CancelExecution`]: [
    ({ execution }) => ({ executionId: execution }),
    ({ execution }) => ({ executionId: ` ${execution}` }),
  ],
  [`${COMMANDS}/WatchExecutions`]: [
    ({ device }) => ({ id: device }),
    ({ device }) => ({ id: device, resumeToken: 'forged' }),
  ],
  [`${READINGS}/QueryLatest`]: [
    ({ sensor }, own) => ({ sensorIds: [own.sensor, sensor] }),
    ({ device, sensor }) => ({ sensorIds: [sensor, sensor], deviceIds: [device] }),
  ],
  [`${READINGS}/QueryRange`]: [
    ({ sensor }, own) => ({ sensorIds: [own.sensor, sensor], ...span }),
    ({ sensor }) => ({ sensorIds: [sensor], ...span, pageToken: 'forged', pageSize: -1 }),
  ],
  [`${READINGS}/QueryAggregate`]: [
    ({ sensor }, own) => ({ sensorIds: [own.sensor, sensor], ...span, bucket: { count: 1, unit: 3 } }),
    ({ sensor }) => ({ sensorIds: [sensor], ...span, bucket: { count: -1, unit: 3 } }),
  ],
  [`${READINGS}/StreamReadings`]: [
    ({ device }, own) => ({ sensorIds: [own.sensor], deviceIds: [device] }),
    ({ sensor }) => ({ sensorIds: [sensor, sensor], resumeToken: 'forged' }),
  ],
};
const MORE: readonly [string, (requested: Resources, own: Resources) => Fields][] = [
  [
    `${DEVICES}/UpdateDigitalDevice`,
    ({ connection }, own) => ({ id: own.device, physicalDevice: { connectionId: connection } }),
  ],
  [
    `${DEVICES}/UpdateDigitalDevice`,
    ({ connection }, own) => ({
      id: own.device,
      physicalDevice: { connectionId: connection, clientDeviceId: 'elsewhere', configuration: { a: 1 } },
      images: [{ mediaId: own.media }],
    }),
  ],
  [
    `${DEVICES}/UpdateDigitalDevice`,
    ({ media }, own) => ({ id: own.device, images: [{ mediaId: media }, { mediaId: own.media }] }),
  ],
  [
    `${DEVICES}/UpdateDigitalDevice`,
    ({ media }, own) => ({ id: own.device, name: ' ', images: [{ mediaId: media }, { mediaId: own.media }] }),
  ],
  [
    `${DEVICES}/UpdateDigitalDevice`,
    ({ media, connection }, own) => ({
      id: own.device,
      images: [{ mediaId: media }],
      physicalDevice: { connectionId: connection },
    }),
  ],
  [
    `${DEVICES}/GetConnectorKeys`,
    ({ connection }, own) => ({ id: own.device, connectionId: connection, clientDeviceId: 'client' }),
  ],
  [`${DEVICES}/RemoveSensorsFromDevice`, ({ sensor }, own) => ({ id: own.device, sensorIds: [sensor] })],
  [
    `${DEVICES}/SetSensorMappings`,
    ({ sensor }, own) => ({ id: own.device, mappings: [{ sensorId: sensor, sourcePath: 'a' }] }),
  ],
  [`${COMMANDS}/GetCommand`, ({ command }, own) => ({ id: own.device, commandId: command })],
  [`${COMMANDS}/UpdateCommand`, ({ command }, own) => ({ id: own.device, commandId: command, command: definition })],
  [`${COMMANDS}/DeleteCommand`, ({ command }, own) => ({ id: own.device, commandId: command })],
  [`${COMMANDS}/ExecuteCommand`, ({ command }, own) => ({ id: own.device, commandId: command })],
  [
    `${COMMANDS}/ExecuteCommand`,
    ({ command }, own) => ({ id: own.device, commandId: command, triggerId: 'not an id' }),
  ],
  [
    `${COMMANDS}/CreateCommand`,
    ({ command, sensor }, own) => ({
      id: own.device,
      command: {
        ...definition,
        name: 'Refers',
        verificationStrategy: 2,
        queryCommandId: command,
        expectedSensorStates: [{ sensorId: sensor, valueTemplate: 'true' }],
      },
    }),
  ],
  [`${READINGS}/QueryLatest`, ({ device }, own) => ({ sensorIds: [own.sensor], deviceIds: [own.device, device] })],
  [`${READINGS}/StreamReadings`, ({ sensor }) => ({ sensorIds: [sensor] })],
];

const restrictable = [...descriptors.methods.values()].filter(
  ({ restrictedKeys: { resourceFields } }) => resourceFields.length > 0,
);
const nonexistent: Resources = {
  device: createUnknownId(1),
  connection: createUnknownId(2),
  sensor: createUnknownId(3),
  command: createUnknownId(4),
  execution: createUnknownId(5),
  media: createUnknownId(6),
};
const cases = [
  ...Object.entries(REQUESTS).flatMap(
    ([path, [request, withViolations]]) =>
      [
        [path, request],
        [path, withViolations],
      ] as const,
  ),
  ...MORE,
];

function createUnknownId(at: number): string {
  return `0190a0a0-0000-7000-8000-00000000000${at}`;
}

function getDetails(path: string): MethodDescriptor {
  const descriptor = descriptors.methods.get(path);
  if (!descriptor) throw new Error(`no ${path}`);
  return descriptor;
}

/** Removes the ids, which may differ between the responses. */
function without(text: string, things: Resources): string {
  return Object.values(things).reduce((redacted, id) => redacted.replaceAll(id, 'ID'), text);
}

/** Removes the expiry of links. */
function removeLinkExpiry(answer: unknown): string {
  return JSON.stringify(answer).replaceAll(/\?organization=[^"]+/g, '');
}

it('covers every method that names resources of which a restricted key sees some', () => {
  expect(restrictable.map(({ path }) => path).filter((path) => !(path in REQUESTS))).toEqual([]);
  expect(Object.keys(REQUESTS).filter((path) => getDetails(path).restrictedKeys.resourceFields.length === 0)).toEqual(
    [],
  );
});

it('covers every method whose handler alone enforces the scope', () => {
  const unnamed = [...descriptors.methods.values()].filter(
    ({ restrictedKeys: { devices, commands, resourceFields } }) =>
      (devices === 'inside' || commands === 'inside') && resourceFields.length === 0,
  );
  const ofKeys = unnamed.filter(({ service }) => service === 'organization_access_control.AccessControlService');
  expect(unnamed.filter((descriptor) => !ofKeys.includes(descriptor)).map(({ path }) => path)).toEqual([
    `${CONNECTIONS}/ListConnections`,
    '/widget.v2.WidgetService/QueryWidgetData', // it reports each sensor outside by itself: widgetData.test.ts
    `${DEVICES}/ListDigitalDevices`,
  ]);
  expect(ofKeys.every(({ path }) => path.includes('ApiKey'))).toBe(true);
});

it('does not start with a method that does not declare its behaviour for restricted keys', () => {
  const files = fromBinary(FileDescriptorSetSchema, readAsset('image.binpb'));
  const method = files.file
    .flatMap(({ service }) => service)
    .find(({ name }) => name === 'DigitalDeviceService')
    ?.method.find(({ name }) => name === 'GetDigitalDevice');
  if (!method?.options?.$unknown) throw new Error('the image has no options');
  method.options.$unknown = method.options.$unknown.filter(({ no }) => no !== RESTRICTED_KEYS);
  expect(() => new Descriptors(toBinary(FileDescriptorSetSchema, files))).toThrow(
    `missing (plantroom.v1.restricted_keys) with devices and commands on: ${DEVICES}/GetDigitalDevice`,
  );
});

describe.each(sqliteOnly())('what lies outside the scope of a restricted key, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let unlimited: Headers;
  let inside: Resources;
  let second: Resources;
  let outside: Resources;
  let foreign: Resources;
  const keys: Record<string, Headers> = {};

  const callMethod = async (path: string, fields: Fields, headers: Headers): Promise<Record<string, unknown>> => {
    const descriptor = getDetails(path);
    const { answer, error } = await server.send(descriptor, encode(descriptor.request, fields), headers);
    if (!answer) throw new Error(`${path}: ${error?.message}`);
    return toJson(descriptor.response, fromBinary(descriptor.response, answer)) as Record<string, unknown>;
  };

  /** Creates a device on a separate connection with one of each resource. */
  const createResources = async (headers: Headers, name: string): Promise<Resources> => {
    const create = async (path: string, fields: Fields): Promise<string> =>
      (await callMethod(path, fields, headers))['id'] as string;
    const connection = await create(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name });
    const keyName = await create(`${TEMPLATES}/CreateNormalizedKey`, { name: `relay of ${name}` });
    const template = await create(`${TEMPLATES}/CreateSensorTemplate`, {
      sensorType: 'relay',
      valueType: 'boolean',
      keyNameId: keyName,
    });
    const media = await create(`${MEDIA}/UploadMedia`, { filename: 'pump.png', chunk: PNG });
    const device = await create(`${DEVICES}/CreateDigitalDevice`, {
      name,
      physicalDevice: { clientDeviceId: 'client', connectionId: connection },
      images: [{ mediaId: media }],
    });
    const { sensors } = (await callMethod(
      `${DEVICES}/AddSensorsToDevice`,
      { id: device, sensorTemplateIds: [template] },
      headers,
    )) as { sensors: { id: string }[] };
    const command = await create(`${COMMANDS}/CreateCommand`, {
      id: device,
      command: { ...definition, name: 'First' },
    });
    const { executionId } = (await callMethod(
      `${COMMANDS}/ExecuteCommand`,
      { id: device, commandId: command },
      headers,
    )) as {
      executionId: string;
    };
    return { device, connection, sensor: sensors[0]?.id ?? '', command, execution: executionId, media };
  };

  /** Returns the response to a request that names these resources, without their ids. */
  const getAnswer = async (
    path: string,
    request: (requested: Resources, own: Resources) => Fields,
    things: Resources,
    headers: Headers,
    own: Resources,
  ): Promise<string> => {
    const descriptor = getDetails(path);
    const { code, error } = await server.send(descriptor, encode(descriptor.request, request(things, own)), headers);
    return without(
      JSON.stringify({
        code,
        reason: error?.reason,
        message: error?.message,
        violations: error?.violations,
        metadata: error?.metadata,
      }),
      things,
    );
  };

  const getHttpAnswer = async (
    way: HttpWay,
    request: (requested: Resources, own: Resources) => Fields,
    things: Resources,
    headers: Headers,
  ): Promise<string> => {
    const { url, body } = buildRequest(way, requestJson(way.descriptor, request(things, inside)));
    const { requestId: _, ...seen } = parseHttpError(
      await http.send(way.verb, url, { headers, ...(body && { body }) }),
    );
    return without(JSON.stringify(seen), things);
  };

  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(server.app.addresses.http as string, server.app.ca);
    const { organizationId } = server;
    unlimited = as((await server.newKey(organizationId, { scopes: KEY_SCOPES })).key, organizationId);
    inside = await createResources(unlimited, 'Inside');
    outside = await createResources(unlimited, 'ExternalDependencies');
    const other = await server.organization('Another organization');
    foreign = await createResources(as((await server.newKey(other)).key, other), 'Foreign');
    const create = async (path: string, fields: Fields): Promise<string> =>
      (await callMethod(path, fields, unlimited))['id'] as string;
    const command = await create(`${COMMANDS}/CreateCommand`, {
      id: inside.device,
      command: { ...definition, name: 'Second' },
    });
    const { executionId } = (await callMethod(
      `${COMMANDS}/ExecuteCommand`,
      { id: inside.device, commandId: command },
      unlimited,
    )) as { executionId: string };
    second = { ...inside, command, execution: executionId };
    const limits: Record<string, Limits> = {
      'by ids': { deviceIds: [inside.device], connectionIds: [inside.connection] },
      'by a connection': { connectionIds: [inside.connection] },
      'to devices and commands': { connectionIds: [inside.connection], commandIds: [inside.command, outside.command] },
      'to commands': { commandIds: [inside.command] },
    };
    for (const [name, limit] of Object.entries(limits))
      keys[name] = as(await createRestrictedKey(server, organizationId, limit, KEY_SCOPES), organizationId);
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  it.each(['by ids', 'by a connection', 'to devices and commands'])(
    'is not found, with identical text, by a key limited %s',
    async (name) => {
      const headers = keys[name] as Headers;
      const different: unknown[] = [];
      for (const [path, request] of cases) {
        if (name.includes('commands') && getDetails(path).restrictedKeys.commands === 'refused') continue;
        const answers = {
          outside: await getAnswer(path, request, outside, headers, inside),
          foreign: await getAnswer(path, request, foreign, headers, inside),
          nobody: await getAnswer(path, request, nonexistent, headers, inside),
        };
        const isRefused = !answers.outside.includes('"code":0');
        if (!isRefused || answers.outside !== answers.nobody || answers.outside !== answers.foreign)
          different.push({ path, ...answers });
      }
      expect(different).toEqual([]);
    },
  );

  it('is reported in the words that an unlimited key gets for unknown resources', async () => {
    const different: unknown[] = [];
    for (const [path, request] of cases.filter(
      ([, one], at) => at % 2 === 0 || MORE.some(([, more]) => more === one),
    )) {
      const answers = {
        limited: await getAnswer(path, request, outside, keys['by a connection'] as Headers, inside),
        unlimited: await getAnswer(path, request, nonexistent, unlimited, inside),
      };
      if (answers.limited !== answers.unlimited) different.push({ path, ...answers });
    }
    expect(different).toEqual([]);
  });

  it('is not found over HTTP either', async () => {
    const different: unknown[] = [];
    const headers = keys['by a connection'] as Headers;
    for (const [path, request] of cases) {
      for (const way of httpWays(getDetails(path))) {
        const answers = {
          outside: await getHttpAnswer(way, request, outside, headers),
          nobody: await getHttpAnswer(way, request, nonexistent, headers),
        };
        const isRefused = /^\{"status":(404|400),/.test(answers.outside);
        if (!isRefused || answers.outside !== answers.nobody)
          different.push({ way: `${way.verb} ${way.route}`, ...answers });
      }
    }
    expect(different).toEqual([]);
  });

  it('is not found where only the command is outside, by a key limited to commands', async () => {
    const headers = keys['to commands'] as Headers;
    const requests = cases.filter(
      ([path, request]) =>
        getDetails(path).restrictedKeys.commands !== 'refused' &&
        JSON.stringify(plain(request(second, inside))).match(new RegExp(`${second.command}|${second.execution}`)),
    );
    const different: unknown[] = [];
    for (const [path, request] of requests) {
      const unknown = { ...inside, command: nonexistent.command, execution: nonexistent.execution };
      const answers = {
        outside: await getAnswer(path, request, second, headers, inside),
        nobody: await getAnswer(path, request, unknown, headers, inside),
      };
      if (answers.outside !== answers.nobody || answers.outside.includes('"code":0'))
        different.push({ path, ...answers });
    }
    expect(different).toEqual([]);
    expect(requests.map(([path]) => path)).toEqual(
      expect.arrayContaining([
        `${COMMANDS}/GetCommand`,
        `${COMMANDS}/ExecuteCommand`,
        `${COMMANDS}/GetExecution`,
        `${COMMANDS}/CancelExecution`,
      ]),
    );
    // A missing device is reported first, as to every key.
    const stranger = { ...second, device: nonexistent.device };
    expect(
      await getAnswer(
        `${COMMANDS}/GetCommand`,
        (requested) => ({ id: requested.device, commandId: requested.command }),
        stranger,
        headers,
        inside,
      ),
    ).toContain('device_not_found');
  });

  it('does not affect what is inside', async () => {
    const reads: [string, Fields][] = [
      [`${DEVICES}/GetDigitalDevice`, { id: inside.device }],
      [`${COMMANDS}/GetCommand`, { id: inside.device, commandId: inside.command }],
      [`${COMMANDS}/GetExecution`, { executionId: inside.execution }],
      [`${CONNECTIONS}/GetConnection`, { id: inside.connection }],
      [`${MEDIA}/GetMedia`, { id: inside.media }],
    ];
    for (const [path, fields] of reads) {
      const expected = removeLinkExpiry(await callMethod(path, fields, unlimited));
      for (const name of Object.keys(keys))
        expect([path, name, removeLinkExpiry(await callMethod(path, fields, keys[name] as Headers))]).toEqual([
          path,
          name,
          expected,
        ]);
    }
    await callMethod(
      `${COMMANDS}/ExecuteCommand`,
      { id: inside.device, commandId: inside.command },
      keys['to commands'] as Headers,
    );
  });

  it.each(
    [...descriptors.methods.values()]
      .filter(({ restrictedKeys: { devices, commands } }) => devices === 'refused' || commands === 'refused')
      .map((descriptor) => [descriptor.path, descriptor] as const),
  )('%s rejects a key that it does not support', async (_path, descriptor) => {
    if (descriptor.scope === 'gateways:write') return; // no restricted key holds it
    const refusals = [
      ...(descriptor.restrictedKeys.devices === 'refused' ? ['by ids', 'by a connection'] : []),
      ...(descriptor.restrictedKeys.commands === 'refused' ? ['to commands', 'to devices and commands'] : []),
    ];
    for (const name of refusals) {
      const reason = descriptor.adminOnly ? 'admin_key_required' : 'insufficient_scope';
      expect(await server.send(descriptor, new Uint8Array(), keys[name] as Headers)).toMatchObject({
        code: status.PERMISSION_DENIED,
        error: { reason },
      });
      const ways = HTTP_WAYS.filter(([, way]) => way.descriptor === descriptor);
      for (const [, way] of ways)
        expect(
          parseHttpError(await http.send(way.verb, anyPath(way), { headers: keys[name] as Headers })),
        ).toMatchObject({
          status: 403,
          code: reason,
        });
    }
  });
});

function plain(fields: Fields): unknown {
  return JSON.parse(JSON.stringify(fields, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)));
}
