import type { Fields, Shape } from './shape';
import type { SpecRequest, SpecFixture } from './specFixture';

// The tables of the interface specification, one row per operation. Nothing here is derived from the protos.

/** One operation of the specification. */
export interface Row {
  readonly operation: string;
  readonly verb: string;
  readonly path: string;
  readonly scope: string;
  /** A narrower scope that is also sufficient, and that the error names. */
  readonly narrowerScope?: string;
  /** Where the organizationId of the request is; `none`: the operation has no such field, only the header. */
  readonly organization: 'query' | 'body' | 'none';
  readonly status: number;
  /** The required names in query and body besides organizationId, as paths. */
  readonly required: readonly string[];
  readonly answer: Shape;
  /** Prepares a call that succeeds, on newly created resources. */
  readonly prepare: (fixture: SpecFixture) => Promise<SpecRequest>;
}

const PHYSICAL_IN_LIST: Fields = { id: 'string', clientDeviceId: 'string', connectionId: 'string' };
const DEVICE_IN_LIST: Shape = {
  exact: {
    id: 'string',
    name: 'string',
    organizationId: 'string',
    'lastSeen?': 'time',
    'physicalDevice?': { exact: PHYSICAL_IN_LIST },
    sensors: { list: { exact: { id: 'string', sensorTemplateId: 'string' } } },
    createdAt: 'time',
    updatedAt: 'time',
  },
};
const SENSOR: Shape = { exact: { id: 'string', sensorTemplateId: 'string', createdAt: 'time', updatedAt: 'time' } };
const IMAGE: Shape = {
  atLeast: {
    id: 'string',
    filename: 'string',
    contentType: 'string',
    url: 'string',
    isCover: 'boolean',
    position: 'integer',
    sizeBytes: 'integer',
    createdAt: 'time',
  },
};
const MAPPING: Shape = {
  exact: { id: 'string', sensorId: 'string', sourcePath: 'string', createdAt: 'time', updatedAt: 'time' },
};
const PHYSICAL: Fields = { ...PHYSICAL_IN_LIST, configuration: 'object', createdAt: 'time', updatedAt: 'time' };
const CREATED: Fields = {
  id: 'string',
  name: 'string',
  organizationId: 'string',
  sensors: { list: SENSOR },
  images: { list: IMAGE },
  createdAt: 'time',
  updatedAt: 'time',
};
const BOUND: Shape = { atLeast: { ...CREATED, physicalDevice: { atLeast: PHYSICAL } } };
/** The complete shape, of a device that has every field. */
const FULL_DEVICE: Shape = {
  exact: {
    ...CREATED,
    dataSendingInterval: { exact: { unit: 'string', value: 'integer' } },
    lastSeen: 'time',
    physicalDevice: { exact: { ...PHYSICAL, sensorMappings: { list: MAPPING } } },
    'etag?': 'string',
  },
};
const TEMPLATE: Fields = {
  createdAt: 'time',
  description: 'string',
  id: 'string',
  isSystem: 'boolean',
  keyName: 'string',
  keyNameId: 'string',
  organizationId: 'string',
  sensorType: 'string',
  unitMeasurementId: 'string',
  updatedAt: 'time',
  valueType: 'string',
};
const KEY: Fields = {
  createdAt: 'time',
  id: 'string',
  isSystem: 'boolean',
  name: 'string',
  organizationId: 'string',
  updatedAt: 'time',
};
const withEtag = (fields: Fields): Shape => ({ exact: { ...fields, 'etag?': 'string' } });
/** Creates a command with every field of a definition that a direct command may have. */
const COMMAND: Shape = {
  atLeast: {
    id: 'string',
    name: 'string',
    description: 'string',
    mode: 'string',
    verificationStrategy: 'string',
    paramsSchema: {
      exact: {
        level: {
          exact: {
            type: 'string',
            default: 'any',
            description: 'string',
            min: 'number',
            max: 'number',
            enum: { list: 'any' },
          },
        },
      },
    },
    directPayload: 'string',
    fPort: 'integer',
    mqttTopic: 'string',
    confirmed: 'boolean',
    expectedSensorStates: { list: { exact: { sensorId: 'string', valueTemplate: 'string' } } },
    convergenceTimeout: 'integer',
  },
};
const EXECUTION: Shape = {
  exact: {
    id: 'string',
    triggerId: 'string',
    commandId: { nullable: 'string' },
    commandNameSnapshot: 'string',
    state: 'string',
    rejectionReason: { nullable: 'string' },
    updatedAt: 'time',
    enqueuedAt: 'time',
  },
};
const PREVIEW: Shape = {
  atLeast: {
    output: { nullable: { atLeast: { bytes: { list: 'integer' }, bytesHex: 'string', bytesBase64: 'string' } } },
    logs: { list: 'string' },
    executionTimeMs: 'number',
    error: { nullable: { atLeast: { code: 'string', message: 'string', 'lineNumber?': 'integer' } } },
  },
};

const onDevice = async (fixture: SpecFixture): Promise<SpecRequest> => ({
  path: { id: (await fixture.createFullDevice()).id },
});

async function fullDefinition(
  fixture: SpecFixture,
): Promise<{ id: string; command: Readonly<Record<string, unknown>> }> {
  const { id } = await fixture.createBoundDevice();
  const sensorId = await fixture.addSensor(id);
  const level = { type: 'integer', default: 3, description: 'how far', min: 0, max: 10, enum: [1, 3, 5] };
  const command = fixture.definition({
    description: 'opens it',
    verificationStrategy: 'wait_next_uplink',
    paramsSchema: { level },
    directPayload: '{"level": {{params.level}}}',
    fPort: 7,
    mqttTopic: 'valves/1',
    confirmed: true,
    expectedSensorStates: [{ sensorId, valueTemplate: '{{params.level}}' }],
    convergenceTimeout: 60,
  });
  return { id, command };
}

const PROFILE_TEMPLATE: Shape = {
  exact: {
    id: 'string',
    name: 'string',
    description: 'string',
    codec: 'string',
    payloadCodecRuntime: 'string',
    macVersion: 'string',
    regParamsRevision: 'string',
    region: 'string',
    deviceStatusReqInterval: 'integer',
    uplinkInterval: 'integer',
    flushQueueOnActivate: 'boolean',
    supportsClassB: 'boolean',
    supportsClassC: 'boolean',
    supportsOtaa: 'boolean',
  },
};

/** Every operation of the specification. */
export const OPERATIONS: readonly Row[] = [
  {
    operation: 'getPersonalUser',
    verb: 'GET',
    path: '/api/users/personal',
    scope: 'users:read',
    organization: 'none',
    status: 200,
    required: [],
    answer: { atLeast: { id: 'string', name: 'string', email: 'string' } },
    prepare: async () => ({}),
  },
  {
    operation: 'listDigitalDevices',
    verb: 'GET',
    path: '/api/v2/devices',
    scope: 'devices:read',
    organization: 'query',
    status: 200,
    required: [],
    answer: { exact: { devices: { list: DEVICE_IN_LIST }, total: 'integer', 'nextPageToken?': 'string' } },
    prepare: async (fixture) => {
      await fixture.createFullDevice();
      await fixture.createDevice();
      return { query: { limit: '10', offset: '0', search: 'thing' } };
    },
  },
  {
    operation: 'createDigitalDevice',
    verb: 'POST',
    path: '/api/v2/devices',
    scope: 'devices:write',
    organization: 'query',
    status: 200,
    required: ['name', 'physicalDevice.clientDeviceId', 'physicalDevice.connectionId', 'images[0].mediaId'],
    answer: BOUND,
    prepare: async (fixture) => ({
      body: {
        name: fixture.name(),
        physicalDevice: { clientDeviceId: fixture.name(), connectionId: fixture.connection, configuration: {} },
        images: [{ mediaId: fixture.mediaId, isCover: true, position: 3 }],
      },
    }),
  },
  {
    operation: 'getDigitalDevice',
    verb: 'GET',
    path: '/api/v2/devices/{id}',
    scope: 'devices:read',
    organization: 'query',
    status: 200,
    required: [],
    answer: FULL_DEVICE,
    prepare: onDevice,
  },
  {
    operation: 'updateDigitalDevice',
    verb: 'PATCH',
    path: '/api/v2/devices/{id}',
    scope: 'devices:write',
    organization: 'query',
    status: 200,
    required: [],
    answer: FULL_DEVICE,
    prepare: async (fixture) => ({
      ...(await onDevice(fixture)),
      body: { name: fixture.name(), physicalDevice: { configuration: {} } },
    }),
  },
  {
    operation: 'deleteDigitalDevice',
    verb: 'DELETE',
    path: '/api/v2/devices/{id}',
    scope: 'devices:write',
    organization: 'query',
    status: 200,
    required: [],
    answer: { exact: {} },
    prepare: onDevice,
  },
  {
    operation: 'getConnectorKeys',
    verb: 'GET',
    path: '/api/v2/devices/{id}/connector-keys',
    scope: 'devices:read',
    organization: 'query',
    status: 200,
    required: ['connectionId', 'clientDeviceId'],
    answer: {
      exact: {
        connectorKeys: {
          list: { exact: { name: 'string', timestamp: 'integer', value: { exact: { value: 'any' } } } },
        },
      },
    },
    prepare: async (fixture) => {
      const { id, clientDeviceId } = await fixture.createFullDevice();
      return { path: { id }, query: { connectionId: fixture.connection, clientDeviceId } };
    },
  },
  {
    operation: 'getDeviceProfileTemplate',
    verb: 'GET',
    path: '/api/v2/device-profile-template',
    scope: 'devices:read',
    organization: 'query',
    status: 200,
    required: ['brand', 'model', 'band'],
    answer: PROFILE_TEMPLATE,
    prepare: async (fixture) => ({ query: await fixture.importProfile() }),
  },
  {
    operation: 'addSensorsToDevice',
    verb: 'POST',
    path: '/api/v2/devices/{id}/sensors',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: ['sensorTemplateIds'],
    answer: FULL_DEVICE,
    prepare: async (fixture) => ({
      ...(await onDevice(fixture)),
      body: { sensorTemplateIds: [await fixture.template()] },
    }),
  },
  {
    operation: 'removeSensorsFromDevice',
    verb: 'DELETE',
    path: '/api/v2/devices/{id}/sensors',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: ['sensorIds'],
    answer: FULL_DEVICE,
    prepare: async (fixture) => {
      const { id } = await fixture.createFullDevice();
      return { path: { id }, body: { sensorIds: [await fixture.addSensor(id)] } };
    },
  },
  {
    operation: 'updateDeviceSensor',
    verb: 'PATCH',
    path: '/api/v2/devices/{id}/sensors/{sensorId}',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: ['sensorTemplateId'],
    answer: FULL_DEVICE,
    prepare: async (fixture) => {
      const { id, sensorId } = await fixture.createFullDevice();
      return { path: { id, sensorId }, body: { sensorTemplateId: await fixture.template() } };
    },
  },
  {
    operation: 'setSensorMappings',
    verb: 'PUT',
    path: '/api/v2/devices/{id}/sensor-mappings',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: ['mappings', 'mappings[0].sensorId', 'mappings[0].sourcePath'],
    answer: FULL_DEVICE,
    prepare: async (fixture) => {
      const { id, sensorId } = await fixture.createFullDevice();
      return { path: { id }, body: { mappings: [{ sensorId, sourcePath: 'object.t' }] } };
    },
  },
  {
    operation: 'listSensorTemplates',
    verb: 'GET',
    path: '/api/v2/devices/sensor-templates',
    scope: 'sensors:read',
    organization: 'query',
    status: 200,
    required: [],
    answer: { exact: { sensorTemplates: { list: { exact: TEMPLATE } }, 'nextPageToken?': 'string' } },
    prepare: async (fixture) => {
      await fixture.template();
      return {};
    },
  },
  {
    operation: 'createSensorTemplate',
    verb: 'POST',
    path: '/api/v2/devices/sensor-templates',
    scope: 'sensors:write',
    organization: 'body',
    status: 200,
    required: ['keyNameId', 'sensorType', 'valueType'],
    answer: withEtag(TEMPLATE),
    prepare: async (fixture) => ({
      body: {
        keyNameId: await fixture.normalizedKey(),
        sensorType: 'temperature',
        valueType: 'number',
        description: 'of the water',
        unitMeasurementId: 'Cel',
      },
    }),
  },
  ...listUpdates({
    operation: 'updateSensorTemplate',
    verb: 'PUT',
    path: '/api/v2/devices/sensor-templates',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: ['keyNameId'],
    answer: withEtag(TEMPLATE),
    prepare: async (fixture) => ({
      path: { id: await fixture.template() },
      body: {
        keyNameId: await fixture.normalizedKey(),
        description: 'of the air',
        sensorType: 'air',
        unitMeasurementId: 'K',
        valueType: 'integer',
      },
    }),
  }),
  ...listUpdates({
    operation: 'deleteSensorTemplate',
    verb: 'DELETE',
    path: '/api/v2/devices/sensor-templates',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: [],
    answer: { exact: {} },
    prepare: async (fixture) => ({ path: { id: await fixture.template() } }),
  }),
  {
    operation: 'listNormalizedKeys',
    verb: 'GET',
    path: '/api/v2/devices/sensor-templates/normalized-keys',
    scope: 'sensors:read',
    organization: 'query',
    status: 200,
    required: [],
    answer: { exact: { normalizedKeys: { list: { exact: KEY } }, 'nextPageToken?': 'string' } },
    prepare: async (fixture) => {
      await fixture.normalizedKey();
      return {};
    },
  },
  {
    operation: 'createNormalizedKey',
    verb: 'POST',
    path: '/api/v2/devices/sensor-templates/normalized-keys',
    scope: 'sensors:write',
    organization: 'body',
    status: 200,
    required: ['name'],
    answer: withEtag(KEY),
    prepare: async (fixture) => ({ body: { name: fixture.name() } }),
  },
  ...listUpdates({
    operation: 'updateNormalizedKey',
    verb: 'PUT',
    path: '/api/v2/devices/sensor-templates/normalized-keys',
    scope: 'sensors:write',
    organization: 'query',
    status: 200,
    required: ['name'],
    answer: withEtag(KEY),
    prepare: async (fixture) => ({ path: { id: await fixture.normalizedKey() }, body: { name: fixture.name() } }),
  }),
  {
    operation: 'createCommand',
    verb: 'POST',
    path: '/api/v2/devices/{id}/commands',
    scope: 'commands:write',
    organization: 'body',
    status: 201,
    required: ['command', 'command.name', 'command.mode', 'command.verificationStrategy'],
    answer: COMMAND,
    prepare: async (fixture) => {
      const { id, command } = await fullDefinition(fixture);
      return { path: { id }, body: { command } };
    },
  },
  {
    operation: 'updateCommand',
    verb: 'PATCH',
    path: '/api/v2/devices/{id}/commands/{commandId}',
    scope: 'commands:write',
    organization: 'body',
    status: 200,
    required: ['command', 'command.name', 'command.mode', 'command.verificationStrategy'],
    answer: COMMAND,
    prepare: async (fixture) => {
      const { id, command } = await fullDefinition(fixture);
      const { id: commandId } = await fixture.sendJson('POST', `/api/v2/devices/${id}/commands`, {
        command: fixture.definition(),
      });
      return { path: { id, commandId: commandId as string }, body: { command } };
    },
  },
  {
    operation: 'deleteCommand',
    verb: 'DELETE',
    path: '/api/v2/devices/{id}/commands/{commandId}',
    scope: 'commands:write',
    organization: 'query',
    status: 204,
    required: [],
    answer: { exact: {} },
    prepare: async (fixture) => ({ path: await fixture.command() }),
  },
  {
    operation: 'previewEncoder',
    verb: 'POST',
    path: '/api/v2/devices/{id}/commands/preview-encoder',
    scope: 'commands:write',
    organization: 'body',
    status: 200,
    required: ['customEncoder'],
    answer: PREVIEW,
    prepare: async (fixture) => ({
      path: { id: await fixture.createDevice() },
      body: {
        customEncoder:
          'function encodeDownlink(input) { console.log("level", input.data.level); return { bytes: [input.data.level, 255], fPort: input.fPort }; }',
        encodedParamsTemplate: { level: '{{params.level}}' },
        params: { level: 7 },
        fPort: 12,
      },
    }),
  },
  {
    operation: 'executeCommand',
    verb: 'POST',
    path: '/api/v2/devices/{id}/actuator-executions',
    scope: 'commands:write',
    narrowerScope: 'commands:execute',
    organization: 'body',
    status: 202,
    required: ['commandId'],
    answer: { atLeast: { accepted: 'boolean', duplicate: 'boolean' } },
    prepare: async (fixture) => {
      const { id, commandId } = await fixture.command();
      return { path: { id }, body: { commandId, params: { on: false } } };
    },
  },
  {
    operation: 'listExecutions',
    verb: 'GET',
    path: '/api/v2/devices/{id}/actuator-executions',
    scope: 'commands:read',
    organization: 'query',
    status: 200,
    required: [],
    answer: { exact: { items: { list: EXECUTION }, nextCursor: { nullable: 'string' } } },
    prepare: async (fixture) => {
      const { id, commandId } = await fixture.command();
      for (const on of [true, false])
        await fixture.sendJson('POST', `/api/v2/devices/${id}/actuator-executions`, { commandId, params: { on } });
      return { path: { id }, query: { limit: '1' } };
    },
  },
];

/**
 * The operations whose id has no place in the path of the specification. It is accepted at the end of the path and as
 * `?id=`.
 */
function listUpdates(row: Row): Row[] {
  const inQuery = async (fixture: SpecFixture): Promise<SpecRequest> => {
    const { path, ...request } = await row.prepare(fixture);
    return { ...request, query: { id: path?.['id'] ?? '' } };
  };
  return [
    { ...row, operation: `${row.operation} (id in the path)`, path: `${row.path}/{id}` },
    { ...row, operation: `${row.operation} (?id=)`, required: [...row.required, 'id'], prepare: inQuery },
  ];
}
