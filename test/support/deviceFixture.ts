import { ConnectionRepository } from '../../src/connections';
import { UnitOfWork, type Db } from '../../src/database';
import { DeviceService, digitalDeviceHandlers, SensorService, type SensorUse } from '../../src/devices';
import type { UplinkSample } from '../../src/executions';
import * as wire from '../../src/gen/digitaldevice/v2/digital_device_service';
import { newId } from '../../src/kernel/ids';
import { Cursors } from '../../src/kernel/pages';
import { MediaLinks } from '../../src/media';
import { DeviceProfiles, profileHandlers } from '../../src/profiles';
import { seedSystemRecords, createSensorTemplateRepositories, SensorTemplateService } from '../../src/sensorTemplates';
import {
  connectorKeyHandlers,
  ConnectorKeyService,
  ReadingSequence,
  SeriesIdCache,
  UplinkPipeline,
} from '../../src/telemetry';
import { noDeviceHooks } from './deviceHooks';
import { call, callFails, MemoryLog, startEdge, type GrpcErrorInfo } from './edge';
import type { TestDatabase, TestEngine } from './engines';
import { TestClock } from './testClock';

type Partly<Value> = Value extends (infer Item)[]
  ? Partly<Item>[]
  : Value extends object
    ? { [Field in keyof Value]?: Partly<Value[Field]> | undefined }
    : Value;
type Method<Request, Response> = ((fields: Partly<Request>, as?: string) => Promise<Response>) & {
  fails(fields: Partly<Request>, as?: string): Promise<GrpcErrorInfo>;
};

/** The methods of DigitalDeviceService as a client calls them: as org-1, or as the given organization. */
export type DeviceApi = ReturnType<typeof deviceApi>;

/** A server of the modules devices and telemetry, with the organizations org-1 and org-2. */
export interface DeviceFixture {
  readonly test: TestDatabase;
  readonly clock: TestClock;
  readonly log: MemoryLog;
  readonly api: DeviceApi;
  readonly devices: DeviceService;
  readonly sensors: SensorService;
  /** Creates the image links of devices. */
  readonly links: MediaLinks;
  readonly pipeline: UplinkPipeline;
  /** The sequence of the readings of the pipeline. */
  readonly positions: ReadingSequence;
  /** A gateway connection of org-1, and one of org-2. */
  readonly connections: readonly [string, string];
  /** Templates of org-1. */
  readonly templates: readonly [string, string];
  /** The uplinks that were passed to the verification of executions. */
  readonly judged: UplinkSample[];
  /** The calls of the hooks of higher modules: the hook and the device. */
  readonly hookCalls: string[];
  /** The commands that expect states of sensors. */
  readonly uses: SensorUse[];
  addConnection(organizationId?: string): Promise<string>;
  stop(): Promise<void>;
}

/** Starts such a server on its own database. */
export async function startDeviceFixture(engine: TestEngine): Promise<DeviceFixture> {
  const test = await engine.createDatabase();
  const { database } = test;
  const clock = new TestClock();
  const log = new MemoryLog();
  const hookCalls: string[] = [];
  const judged: UplinkSample[] = [];
  const uses: SensorUse[] = [];
  await database.db
    .knex('organizations')
    .insert(['org-1', 'org-2'].map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 })));
  const hooks = {
    ...noDeviceHooks,
    onBindingRemoved: async (_db: Db, organizationId: string, deviceId: string) =>
      void hookCalls.push(`bindingChanged ${organizationId} ${deviceId}`),
    onDeviceDeleted: async (_db: Db, organizationId: string, deviceId: string) =>
      void hookCalls.push(`deviceDeleted ${organizationId} ${deviceId}`),
    findSensorUses: async (_db: Db, _organizationId: string, sensorIds: readonly string[]) =>
      uses.filter((use) => sensorIds.includes(use.sensorId)),
  };
  const cursors = new Cursors(Buffer.alloc(32));
  const devices = new DeviceService({ database, clock, cursors, hooks });
  const sensors = new SensorService({ database, clock, hooks });
  const links = new MediaLinks(Buffer.alloc(32), () => 'https://plantroom.test', clock);
  const positions = new ReadingSequence(clock);
  const pipeline = new UplinkPipeline({
    database,
    log,
    positions,
    series: new SeriesIdCache(),
    evaluateExecutions: async (_db, uplink) => void judged.push(uplink),
  });
  const handlers = {
    ...digitalDeviceHandlers(devices, sensors, links),
    ...connectorKeyHandlers(new ConnectorKeyService(database)),
    ...profileHandlers(new DeviceProfiles({ database, cursors })),
  };
  const edge = await startEdge((server) => server.addService(wire.DigitalDeviceServiceService, handlers));
  for (const organizationId of ['org-1', 'org-2']) edge.keys.add(organizationId, { organizationId });
  const addConnection = async (organizationId = 'org-1') => await insertConnection(database.db, organizationId);
  return {
    test,
    clock,
    log,
    devices,
    sensors,
    links,
    pipeline,
    positions,
    judged,
    hookCalls,
    uses,
    addConnection,
    api: deviceApi(edge.client(wire.DigitalDeviceServiceClient)),
    connections: [await addConnection(), await addConnection('org-2')],
    templates: await createTemplates(test, clock, cursors),
    stop: async () => {
      await edge.stop();
      await test.drop();
    },
  };
}

function deviceApi(client: wire.DigitalDeviceServiceClient) {
  return {
    list: method(
      wire.ListDigitalDevicesRequest,
      wire.ListDigitalDevicesResponse,
      client.listDigitalDevices.bind(client),
    ),
    create: method(wire.CreateDigitalDeviceRequest, wire.DigitalDevice, client.createDigitalDevice.bind(client)),
    get: method(wire.GetDigitalDeviceRequest, wire.DigitalDevice, client.getDigitalDevice.bind(client)),
    update: method(wire.UpdateDigitalDeviceRequest, wire.DigitalDevice, client.updateDigitalDevice.bind(client)),
    delete: method(
      wire.DeleteDigitalDeviceRequest,
      wire.DeleteDigitalDeviceResponse,
      client.deleteDigitalDevice.bind(client),
    ),
    profile: method(
      wire.GetDeviceProfileTemplateRequest,
      wire.DeviceProfileTemplate,
      client.getDeviceProfileTemplate.bind(client),
    ),
    profiles: method(
      wire.ListDeviceProfilesRequest,
      wire.ListDeviceProfilesResponse,
      client.listDeviceProfiles.bind(client),
    ),
    connectorKeys: method(
      wire.GetConnectorKeysRequest,
      wire.GetConnectorKeysResponse,
      client.getConnectorKeys.bind(client),
    ),
    addSensors: method(wire.AddSensorsToDeviceRequest, wire.DigitalDevice, client.addSensorsToDevice.bind(client)),
    removeSensors: method(
      wire.RemoveSensorsFromDeviceRequest,
      wire.DigitalDevice,
      client.removeSensorsFromDevice.bind(client),
    ),
    updateSensor: method(wire.UpdateDeviceSensorRequest, wire.DigitalDevice, client.updateDeviceSensor.bind(client)),
    setMappings: method(wire.SetSensorMappingsRequest, wire.DigitalDevice, client.setSensorMappings.bind(client)),
  };
}

function method<Request, Response>(
  type: { fromPartial(fields: never): Request },
  _answer: { decode(bytes: Uint8Array): Response },
  unary: Parameters<typeof call<Request, Response>>[0],
): Method<Request, Response> {
  const request = (fields: Partly<Request>): Request => type.fromPartial(fields as never);
  const succeeds = async (fields: Partly<Request>, as = 'org-1'): Promise<Response> =>
    await call(unary, request(fields), getKey(as));
  const fails = async (fields: Partly<Request>, as = 'org-1'): Promise<GrpcErrorInfo> =>
    await callFails(unary, request(fields), getKey(as));
  return Object.assign(succeeds, { fails });
}

function getKey(organizationId: string): Record<string, string> {
  return { 'x-api-key': organizationId, 'x-organization-id': organizationId };
}

async function insertConnection(db: Db, organizationId: string): Promise<string> {
  const id = newId();
  await new ConnectionRepository(db).create(organizationId, {
    id,
    organizationId,
    connectorId: 'gateway',
    name: id,
    description: '',
    enabled: true,
    configuration: {},
    encryptedSecrets: {},
    policy: {},
    createdAt: 0,
    updatedAt: 0,
    revision: 1,
  });
  return id;
}

async function createTemplates(
  { database }: TestDatabase,
  clock: TestClock,
  cursors: Cursors,
): Promise<[string, string]> {
  const uow = new UnitOfWork(database, createSensorTemplateRepositories);
  await seedSystemRecords(uow, clock);
  const [key] = await uow.repos.keys.listSystem();
  const templates = new SensorTemplateService({
    uow,
    clock,
    cursors,
    countSensorUses: async () => 0,
    countCommandUses: async () => 0,
  });
  const createTemplate = async () =>
    (
      await templates.create('org-1', {
        keyNameId: key?.id ?? '',
        sensorType: 'valve',
        valueType: 'number',
        unitMeasurementId: undefined,
        description: undefined,
      })
    ).id;
  return [await createTemplate(), await createTemplate()];
}
