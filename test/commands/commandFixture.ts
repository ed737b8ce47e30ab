import {
  commandHandlers,
  CommandService,
  type Encoder,
  EncoderPreviewService,
  findSensorUses,
  countCommandUses,
} from '../../src/commands';
import { UnitOfWork } from '../../src/database';
import { DeviceService, SensorService } from '../../src/devices';
import {
  ActuatorCommandServiceClient,
  ActuatorCommandServiceService,
  CommandDefinition,
  CreateCommandRequest,
  type Command,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { Cursors } from '../../src/kernel/pages';
import { seedSystemRecords, createSensorTemplateRepositories, SensorTemplateService } from '../../src/sensorTemplates';
import { noDeviceHooks } from '../support/deviceHooks';
import { noCompiler, noEncoder, type TestEncoder } from '../support/encoders';
import { call, callFails, startEdge, type GrpcErrorInfo, type TestEdge } from '../support/edge';
import type { TestDatabase, TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';

/** Request headers with the key of an organization. */
export const AS_ONE = { 'x-api-key': 'one', 'x-organization-id': 'org-1' };
export const AS_TWO = { 'x-api-key': 'two', 'x-organization-id': 'org-2' };

/** A server with its own database and two organizations. The modules below it are available as services. */
export interface CommandFixture {
  readonly db: TestDatabase;
  readonly edge: TestEdge;
  readonly clock: TestClock;
  readonly client: ActuatorCommandServiceClient;
  readonly devices: DeviceService;
  readonly sensors: SensorService;
  readonly templates: SensorTemplateService;
  /** Creates a device with this number of sensors, all of one template. */
  device(options?: {
    organizationId?: string;
    sensors?: number;
    templateId?: string;
  }): Promise<{ id: string; sensorIds: string[] }>;
  /** Creates a template of the organization with numeric values. */
  template(): Promise<string>;
  create(deviceId: string, overrides?: Partial<CommandDefinition>): Promise<Command>;
  createFails(deviceId: string, overrides?: Partial<CommandDefinition>): Promise<GrpcErrorInfo>;
  stop(): Promise<void>;
}

/** Returns a valid definition in its wire form; `changes` are the fields that the test is about. */
export function wireDefinition(overrides: Partial<CommandDefinition> = {}): CommandDefinition {
  return CommandDefinition.fromPartial({
    name: 'Set valve',
    mode: 1,
    verificationStrategy: 1,
    directPayload: '{"on": true}',
    ...overrides,
  });
}

function createRequest(id: string, overrides?: Partial<CommandDefinition>): CreateCommandRequest {
  return CreateCommandRequest.fromPartial({ id, command: wireDefinition(overrides) });
}

/** Starts such a server with its own database. */
export async function startCommandFixture(
  engine: TestEngine,
  encoder: Encoder & Partial<Pick<TestEncoder, 'compile'>> = noEncoder,
): Promise<CommandFixture> {
  const db = await engine.createDatabase();
  const { database } = db;
  const clock = new TestClock();
  const cursors = new Cursors(Buffer.alloc(32));
  const uow = new UnitOfWork(database, createSensorTemplateRepositories);
  await database.db
    .knex('organizations')
    .insert(['org-1', 'org-2'].map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 })));
  await seedSystemRecords(uow, clock);
  const hooks = { ...noDeviceHooks, findSensorUses };
  const devices = new DeviceService({ database, clock, cursors, hooks });
  const sensors = new SensorService({ database, clock, hooks });
  const templates = new SensorTemplateService({
    uow,
    clock,
    cursors,
    countSensorUses: async () => 0,
    countCommandUses,
  });
  const commands = new CommandService({ database, clock, cursors });
  const { createCommand, getCommand, listCommands, updateCommand, deleteCommand, previewEncoder } =
    ActuatorCommandServiceService;
  const edge = await startEdge((server) =>
    server.addService(
      { createCommand, getCommand, listCommands, updateCommand, deleteCommand, previewEncoder },
      commandHandlers(commands, new EncoderPreviewService({ database, encoder, clock }), {
        ...noCompiler,
        ...encoder,
      }),
    ),
  );
  edge.keys.add('one', { organizationId: 'org-1' });
  edge.keys.add('two', { organizationId: 'org-2' });
  const client = edge.client(ActuatorCommandServiceClient);
  const [key] = (await uow.repos.keys.listSystem()).slice(0, 1);
  const template = async (): Promise<string> =>
    (
      await templates.create('org-1', {
        keyNameId: key?.id ?? '',
        sensorType: 'valve',
        valueType: 'number',
        unitMeasurementId: undefined,
        description: undefined,
      })
    ).id;
  return {
    db,
    edge,
    clock,
    client,
    devices,
    sensors,
    templates,
    template,
    device: async ({ organizationId = 'org-1', sensors: count = 0, templateId } = {}) => {
      const { id } = await devices.create(organizationId, { name: 'Device', physicalDevice: undefined });
      if (count === 0) return { id, sensorIds: [] };
      const of = templateId ?? (await template());
      const device = await sensors.add(
        organizationId,
        id,
        Array.from({ length: count }, () => of),
      );
      return { id, sensorIds: device.sensors.map((sensor) => sensor.id) };
    },
    create: async (id, overrides) =>
      await call(client.createCommand.bind(client), createRequest(id, overrides), AS_ONE),
    createFails: async (id, overrides) =>
      await callFails(client.createCommand.bind(client), createRequest(id, overrides), AS_ONE),
    stop: async () => {
      await edge.stop();
      await db.drop();
    },
  };
}
