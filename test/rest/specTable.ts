import type { Fields, Shape } from './shape';
import type { Asked, SpecRoom } from './specRoom';

// The tables of the specification of the interface, one row an operation; nothing here is taken from the protos.

/** One operation. */
export interface Row {
  readonly operation: string;
  readonly verb: string;
  readonly path: string;
  readonly scope: string;
  /** Where its organizationId stands; `none`: the operation has no such field, only the header. */
  readonly organization: 'query' | 'body' | 'none';
  readonly status: number;
  /** The names in query and body that are required beside organizationId, by their paths. */
  readonly required: readonly string[];
  readonly answer: Shape;
  /** A call that succeeds, on things of its own. */
  readonly ask: (room: SpecRoom) => Promise<Asked>;
}

const PHYSICAL_IN_LIST: Fields = { id: 'string', clientDeviceId: 'string', connectionId: 'string' };
const DEVICE_IN_LIST: Shape = {
  exact: { id: 'string', name: 'string', organizationId: 'string', 'lastSeen?': 'time', 'physicalDevice?': { exact: PHYSICAL_IN_LIST }, sensors: { list: { exact: { id: 'string', sensorTemplateId: 'string' } } }, createdAt: 'time', updatedAt: 'time' },
};
const SENSOR: Shape = { exact: { id: 'string', sensorTemplateId: 'string', createdAt: 'time', updatedAt: 'time' } };
const IMAGE: Shape = { atLeast: { id: 'string', filename: 'string', contentType: 'string', url: 'string', isCover: 'boolean', position: 'integer', sizeBytes: 'integer', createdAt: 'time' } };
const MAPPING: Shape = { exact: { id: 'string', sensorId: 'string', sourcePath: 'string', createdAt: 'time', updatedAt: 'time' } };
const PHYSICAL: Fields = { ...PHYSICAL_IN_LIST, configuration: 'object', createdAt: 'time', updatedAt: 'time' };
const CREATED: Fields = { id: 'string', name: 'string', organizationId: 'string', sensors: { list: SENSOR }, images: { list: IMAGE }, createdAt: 'time', updatedAt: 'time' };
const BOUND: Shape = { atLeast: { ...CREATED, physicalDevice: { atLeast: PHYSICAL } } };
/** The full shape, of a device that has all of it. */
const WHOLE: Shape = {
  exact: { ...CREATED, dataSendingInterval: { exact: { unit: 'string', value: 'integer' } }, lastSeen: 'time', physicalDevice: { exact: { ...PHYSICAL, sensorMappings: { list: MAPPING } } }, 'etag?': 'string' },
};
const TEMPLATE: Fields = {
  createdAt: 'time', description: 'string', id: 'string', isSystem: 'boolean', keyName: 'string', keyNameId: 'string', organizationId: 'string', sensorType: 'string', unitMeasurementId: 'string', updatedAt: 'time', valueType: 'string',
};
const KEY: Fields = { createdAt: 'time', id: 'string', isSystem: 'boolean', name: 'string', organizationId: 'string', updatedAt: 'time' };
const withEtag = (fields: Fields): Shape => ({ exact: { ...fields, 'etag?': 'string' } });
/** A command with every field of a definition that a direct one may have. */
const COMMAND: Shape = {
  atLeast: {
    id: 'string', name: 'string', description: 'string', mode: 'string', verificationStrategy: 'string',
    paramsSchema: { exact: { level: { exact: { type: 'string', default: 'any', description: 'string', min: 'number', max: 'number', enum: { list: 'any' } } } } },
    directPayload: 'string', fPort: 'integer', mqttTopic: 'string', confirmed: 'boolean', expectedSensorStates: { list: { exact: { sensorId: 'string', valueTemplate: 'string' } } }, convergenceTimeout: 'integer',
  },
};
const EXECUTION: Shape = {
  exact: { id: 'string', triggerId: 'string', commandId: { orNull: 'string' }, commandNameSnapshot: 'string', state: 'string', rejectionReason: { orNull: 'string' }, updatedAt: 'time', enqueuedAt: 'time' },
};
const PREVIEW: Shape = {
  atLeast: {
    output: { orNull: { atLeast: { bytes: { list: 'integer' }, bytesHex: 'string', bytesBase64: 'string' } } }, logs: { list: 'string' }, executionTimeMs: 'number',
    error: { orNull: { atLeast: { code: 'string', message: 'string', 'lineNumber?': 'integer' } } },
  },
};

const onDevice = async (room: SpecRoom): Promise<Asked> => ({ path: { id: (await room.wholeDevice()).id } });

async function fullDefinition(room: SpecRoom): Promise<{ id: string; command: Readonly<Record<string, unknown>> }> {
  const { id } = await room.boundDevice();
  const sensorId = await room.sensor(id);
  const level = { type: 'integer', default: 3, description: 'how far', min: 0, max: 10, enum: [1, 3, 5] };
  const command = room.definition({
    description: 'opens it', verificationStrategy: 'wait_next_uplink', paramsSchema: { level }, directPayload: '{"level": {{params.level}}}', fPort: 7, mqttTopic: 'valves/1', confirmed: true,
    expectedSensorStates: [{ sensorId, valueTemplate: '{{params.level}}' }], convergenceTimeout: 60,
  });
  return { id, command };
}

const PROFILE_TEMPLATE: Shape = {
  exact: {
    id: 'string', name: 'string', description: 'string', codec: 'string', payloadCodecRuntime: 'string', macVersion: 'string', regParamsRevision: 'string', region: 'string', deviceStatusReqInterval: 'integer', uplinkInterval: 'integer',
    flushQueueOnActivate: 'boolean', supportsClassB: 'boolean', supportsClassC: 'boolean', supportsOtaa: 'boolean',
  },
};

/** Every operation of the specification. */
export const OPERATIONS: readonly Row[] = [
  {
    operation: 'getPersonalUser', verb: 'GET', path: '/api/users/personal', scope: 'users:read', organization: 'none', status: 200, required: [],
    answer: { atLeast: { id: 'string', name: 'string', email: 'string' } }, ask: async () => ({}),
  },
  {
    operation: 'listDigitalDevices', verb: 'GET', path: '/api/v2/devices', scope: 'devices:read', organization: 'query', status: 200, required: [],
    answer: { exact: { devices: { list: DEVICE_IN_LIST }, total: 'integer', 'nextPageToken?': 'string' } },
    ask: async (room) => {
      await room.wholeDevice();
      await room.device();
      return { query: { limit: '10', offset: '0', search: 'thing' } };
    },
  },
  {
    operation: 'createDigitalDevice', verb: 'POST', path: '/api/v2/devices', scope: 'devices:write', organization: 'query', status: 200, required: ['name', 'physicalDevice.clientDeviceId', 'physicalDevice.connectionId', 'images[0].mediaId'], answer: BOUND,
    ask: async (room) => ({ body: { name: room.name(), physicalDevice: { clientDeviceId: room.name(), connectionId: room.connection, configuration: {} }, images: [{ mediaId: room.picture, isCover: true, position: 3 }] } }),
  },
  { operation: 'getDigitalDevice', verb: 'GET', path: '/api/v2/devices/{id}', scope: 'devices:read', organization: 'query', status: 200, required: [], answer: WHOLE, ask: onDevice },
  {
    operation: 'updateDigitalDevice', verb: 'PATCH', path: '/api/v2/devices/{id}', scope: 'devices:write', organization: 'query', status: 200, required: [], answer: WHOLE,
    ask: async (room) => ({ ...(await onDevice(room)), body: { name: room.name(), physicalDevice: { configuration: {} } } }),
  },
  { operation: 'deleteDigitalDevice', verb: 'DELETE', path: '/api/v2/devices/{id}', scope: 'devices:write', organization: 'query', status: 200, required: [], answer: { exact: {} }, ask: onDevice },
  {
    operation: 'getConnectorKeys', verb: 'GET', path: '/api/v2/devices/{id}/connector-keys', scope: 'devices:read', organization: 'query', status: 200, required: ['connectionId', 'clientDeviceId'],
    answer: { exact: { connectorKeys: { list: { exact: { name: 'string', timestamp: 'integer', value: { exact: { value: 'any' } } } } } } },
    ask: async (room) => {
      const { id, clientDeviceId } = await room.wholeDevice();
      return { path: { id }, query: { connectionId: room.connection, clientDeviceId } };
    },
  },
  {
    operation: 'getDeviceProfileTemplate', verb: 'GET', path: '/api/v2/device-profile-template', scope: 'devices:read', organization: 'query', status: 200, required: ['brand', 'model', 'band'], answer: PROFILE_TEMPLATE,
    ask: async (room) => ({ query: await room.profile() }),
  },
  {
    operation: 'addSensorsToDevice', verb: 'POST', path: '/api/v2/devices/{id}/sensors', scope: 'sensors:write', organization: 'query', status: 200, required: ['sensorTemplateIds'], answer: WHOLE,
    ask: async (room) => ({ ...(await onDevice(room)), body: { sensorTemplateIds: [await room.template()] } }),
  },
  {
    operation: 'removeSensorsFromDevice', verb: 'DELETE', path: '/api/v2/devices/{id}/sensors', scope: 'sensors:write', organization: 'query', status: 200, required: ['sensorIds'], answer: WHOLE,
    ask: async (room) => {
      const { id } = await room.wholeDevice();
      return { path: { id }, body: { sensorIds: [await room.sensor(id)] } };
    },
  },
  {
    operation: 'updateDeviceSensor', verb: 'PATCH', path: '/api/v2/devices/{id}/sensors/{sensorId}', scope: 'sensors:write', organization: 'query', status: 200, required: ['sensorTemplateId'], answer: WHOLE,
    ask: async (room) => {
      const { id, sensorId } = await room.wholeDevice();
      return { path: { id, sensorId }, body: { sensorTemplateId: await room.template() } };
    },
  },
  {
    operation: 'setSensorMappings', verb: 'PUT', path: '/api/v2/devices/{id}/sensor-mappings', scope: 'sensors:write', organization: 'query', status: 200, required: ['mappings', 'mappings[0].sensorId', 'mappings[0].sourcePath'], answer: WHOLE,
    ask: async (room) => {
      const { id, sensorId } = await room.wholeDevice();
      return { path: { id }, body: { mappings: [{ sensorId, sourcePath: 'object.t' }] } };
    },
  },
  {
    operation: 'listSensorTemplates', verb: 'GET', path: '/api/v2/devices/sensor-templates', scope: 'sensors:read', organization: 'query', status: 200, required: [],
    answer: { exact: { sensorTemplates: { list: { exact: TEMPLATE } }, 'nextPageToken?': 'string' } },
    ask: async (room) => {
      await room.template();
      return {};
    },
  },
  {
    operation: 'createSensorTemplate', verb: 'POST', path: '/api/v2/devices/sensor-templates', scope: 'sensors:write', organization: 'body', status: 200, required: ['keyNameId', 'sensorType', 'valueType'], answer: withEtag(TEMPLATE),
    ask: async (room) => ({ body: { keyNameId: await room.normalizedKey(), sensorType: 'temperature', valueType: 'number', description: 'of the water', unitMeasurementId: 'Cel' } }),
  },
  ...updatesOf({
    operation: 'updateSensorTemplate', verb: 'PUT', path: '/api/v2/devices/sensor-templates', scope: 'sensors:write', organization: 'query', status: 200, required: ['keyNameId'], answer: withEtag(TEMPLATE),
    ask: async (room) => ({ path: { id: await room.template() }, body: { keyNameId: await room.normalizedKey(), description: 'of the air', sensorType: 'air', unitMeasurementId: 'K', valueType: 'integer' } }),
  }),
  ...updatesOf({ operation: 'deleteSensorTemplate', verb: 'DELETE', path: '/api/v2/devices/sensor-templates', scope: 'sensors:write', organization: 'query', status: 200, required: [], answer: { exact: {} }, ask: async (room) => ({ path: { id: await room.template() } }) }),
  {
    operation: 'listNormalizedKeys', verb: 'GET', path: '/api/v2/devices/sensor-templates/normalized-keys', scope: 'sensors:read', organization: 'query', status: 200, required: [],
    answer: { exact: { normalizedKeys: { list: { exact: KEY } }, 'nextPageToken?': 'string' } },
    ask: async (room) => {
      await room.normalizedKey();
      return {};
    },
  },
  {
    operation: 'createNormalizedKey', verb: 'POST', path: '/api/v2/devices/sensor-templates/normalized-keys', scope: 'sensors:write', organization: 'body', status: 200, required: ['name'], answer: withEtag(KEY),
    ask: async (room) => ({ body: { name: room.name() } }),
  },
  ...updatesOf({
    operation: 'updateNormalizedKey', verb: 'PUT', path: '/api/v2/devices/sensor-templates/normalized-keys', scope: 'sensors:write', organization: 'query', status: 200, required: ['name'], answer: withEtag(KEY),
    ask: async (room) => ({ path: { id: await room.normalizedKey() }, body: { name: room.name() } }),
  }),
  {
    operation: 'createCommand', verb: 'POST', path: '/api/v2/devices/{id}/commands', scope: 'commands:write', organization: 'body', status: 201, required: ['command', 'command.name', 'command.mode', 'command.verificationStrategy'], answer: COMMAND,
    ask: async (room) => {
      const { id, command } = await fullDefinition(room);
      return { path: { id }, body: { command } };
    },
  },
  {
    operation: 'updateCommand', verb: 'PATCH', path: '/api/v2/devices/{id}/commands/{commandId}', scope: 'commands:write', organization: 'body', status: 200, required: ['command', 'command.name', 'command.mode', 'command.verificationStrategy'], answer: COMMAND,
    ask: async (room) => {
      const { id, command } = await fullDefinition(room);
      const { id: commandId } = await room.made('POST', `/api/v2/devices/${id}/commands`, { command: room.definition() });
      return { path: { id, commandId: commandId as string }, body: { command } };
    },
  },
  {
    operation: 'deleteCommand', verb: 'DELETE', path: '/api/v2/devices/{id}/commands/{commandId}', scope: 'commands:write', organization: 'query', status: 204, required: [], answer: { exact: {} },
    ask: async (room) => ({ path: await room.command() }),
  },
  {
    operation: 'previewEncoder', verb: 'POST', path: '/api/v2/devices/{id}/commands/preview-encoder', scope: 'commands:write', organization: 'body', status: 200, required: ['customEncoder'], answer: PREVIEW,
    ask: async (room) => ({
      path: { id: await room.device() },
      body: { customEncoder: 'function encodeDownlink(input) { console.log("level", input.data.level); return { bytes: [input.data.level, 255], fPort: input.fPort }; }', encodedParamsTemplate: { level: '{{params.level}}' }, params: { level: 7 }, fPort: 12 },
    }),
  },
  {
    operation: 'executeCommand', verb: 'POST', path: '/api/v2/devices/{id}/actuator-executions', scope: 'commands:write', organization: 'body', status: 202, required: ['commandId'], answer: { atLeast: { accepted: 'boolean', duplicate: 'boolean' } },
    ask: async (room) => {
      const { id, commandId } = await room.command();
      return { path: { id }, body: { commandId, params: { on: false } } };
    },
  },
  {
    operation: 'listExecutions', verb: 'GET', path: '/api/v2/devices/{id}/actuator-executions', scope: 'commands:read', organization: 'query', status: 200, required: [], answer: { exact: { items: { list: EXECUTION }, nextCursor: { orNull: 'string' } } },
    ask: async (room) => {
      const { id, commandId } = await room.command();
      for (const on of [true, false]) await room.made('POST', `/api/v2/devices/${id}/actuator-executions`, { commandId, params: { on } });
      return { path: { id }, query: { limit: '1' } };
    },
  },
];

/** The operations whose id has no place in the path of the specification: behind it, and as `?id=`. */
function updatesOf(row: Row): Row[] {
  const inQuery = async (room: SpecRoom): Promise<Asked> => {
    const { path, ...asked } = await row.ask(room);
    return { ...asked, query: { id: path?.['id'] ?? '' } };
  };
  return [
    { ...row, operation: `${row.operation} (id in the path)`, path: `${row.path}/{id}` },
    { ...row, operation: `${row.operation} (?id=)`, required: [...row.required, 'id'], ask: inQuery },
  ];
}
