import { EventEmitter } from 'node:events';
import { commandHandlers, CommandService, type Encoder, EncoderPreviews, sensorsInUse, valueTypeUses } from '../../src/commands';
import { Arrivals, ChirpStackConnector, type Connection, ConnectionRepository, ConnectionStatuses, ConnectorHub, GatewayConnector, gatewayHandlers, MqttConnector } from '../../src/connections';
import { type Database, UnitOfWork } from '../../src/database';
import { DeviceService, SensorService } from '../../src/devices';
import { executionHandlers, Executions, isFinal } from '../../src/executions';
import {
  ActuatorCommandServiceClient,
  ActuatorCommandServiceService,
  type Command,
  CommandDefinition,
  type CreateCommandRequest,
  type ExecuteCommandRequest,
  type ExecuteCommandResponse,
  type Execution,
  ExecutionState,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { GatewayServiceClient, GatewayServiceService } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { Cursors } from '../../src/kernel/pages';
import { seedSystemRecords, sensorTemplateRepositories, SensorTemplateService, type ValueType } from '../../src/sensorTemplates';
import { ReadingPositions, SeriesNumbers, UplinkPipeline } from '../../src/telemetry';
import { call, callFails, MemoryLog, startEdge, type SeenError, type TestEdge } from '../support/edge';
import { noEncoder } from '../support/encoders';
import { TestClock } from '../support/testClock';

/** The headers of a call with the key of an organization. */
export const AS_ONE = { 'x-api-key': 'one', 'x-organization-id': 'org-1' };
export const AS_TWO = { 'x-api-key': 'two', 'x-organization-id': 'org-2' };

/** A device that can be commanded. */
export interface Target {
  readonly deviceId: string;
  readonly commandId: string;
  readonly clientDeviceId: string;
  /** The sensor of which a state is expected; empty: of none. Its values come under `level`. */
  readonly sensorId: string;
}

/** What makes a target special; the rest is a bound device with a command that needs nothing. */
export interface TargetOptions {
  readonly connectionId?: string;
  readonly bound?: boolean;
  readonly command?: Partial<CommandDefinition>;
  /** With one sensor that the command expects to show this template, or 21. */
  readonly expects?: boolean | string;
  /** Made up where nothing is said. */
  readonly clientDeviceId?: string;
  /** Where uplinks hold the sensor's value; `level` where nothing is said. */
  readonly levelPath?: string;
  /** Of the sensor; `number` where nothing is said. */
  readonly valueType?: ValueType;
}

/** A server of this room with a gateway's door, on a database of its own or on one that an earlier room left. */
export interface ExecutionRoom {
  readonly log: MemoryLog;
  readonly edge: TestEdge;
  readonly clock: TestClock;
  readonly client: ActuatorCommandServiceClient;
  readonly gateways: GatewayServiceClient;
  readonly executions: Executions;
  readonly devices: DeviceService;
  readonly statuses: ConnectionStatuses;
  /** Makes one, and hands it to its connector. */
  connection(overrides?: Partial<Connection>): Promise<string>;
  /** Hands a connection to its connector that an earlier room made. */
  reopen(connectionId: string): Promise<void>;
  /** Resolves when somebody is there on a connection. */
  untilConnected(connectionId: string): Promise<void>;
  target(options?: TargetOptions): Promise<Target>;
  addCommand(deviceId: string, command?: Partial<CommandDefinition>): Promise<string>;
  execute(target: Pick<Target, 'deviceId' | 'commandId'>, overrides?: Partial<ExecuteCommandRequest>): Promise<ExecuteCommandResponse>;
  executeFails(target: Pick<Target, 'deviceId' | 'commandId'>, overrides?: Partial<ExecuteCommandRequest>): Promise<SeenError>;
  get(executionId: string): Promise<Execution>;
  /** Resolves when the execution is in this state (by its name, for example `delivered`). */
  until(executionId: string, state: string): Promise<Execution>;
  stop(): Promise<void>;
}

/** The name of a state as REST shows it. */
export function nameOf(state: ExecutionState): string {
  return ExecutionState[state].replace('EXECUTION_STATE_', '').toLowerCase();
}

/** Resolves when an execution of `org-1` is in this state; throws when it has ended in another one. */
export async function untilState(executions: Executions, executionId: string, state: string): Promise<void> {
  const watching = new AbortController();
  const items = executions.watch.watch('org-1', { deviceId: undefined, executionId, resumeToken: '' }, watching.signal);
  while (!(await items.next()).done) {
    const { execution } = await executions.service.get('org-1', executionId);
    if (execution.state === state) return watching.abort();
    if (isFinal(execution.state)) throw new Error(`the execution ended as ${execution.state}, not as ${state}`);
  }
}

/** Resolves when an execution of `org-1` has ended. */
export async function untilFinal(executions: Executions, executionId: string): Promise<void> {
  const watching = new AbortController();
  const items = executions.watch.watch('org-1', { deviceId: undefined, executionId, resumeToken: '' }, watching.signal);
  while (!(await items.next()).done) {
    if (isFinal((await executions.service.get('org-1', executionId)).execution.state)) return watching.abort();
  }
}

/** Resolves when this event is in the log of an execution of `org-1`. */
export async function untilEvent(executions: Executions, executionId: string, event: string): Promise<void> {
  const watching = new AbortController();
  const items = executions.watch.watch('org-1', { deviceId: undefined, executionId, resumeToken: '' }, watching.signal);
  while (!(await items.next()).done) {
    const { events } = await executions.service.get('org-1', executionId);
    if (events.some((entry) => entry.event === event)) return watching.abort();
  }
}

/** Puts two organizations and the records of the system into an empty database. */
export async function prepare(database: Database): Promise<void> {
  await database.db.knex('organizations').insert(['org-1', 'org-2'].map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 })));
  await seedSystemRecords(new UnitOfWork(database, sensorTemplateRepositories), new TestClock());
}

/** Starts the server; the database must be prepared. */
export async function startExecutionRoom(database: Database, clock = new TestClock(), encoder: Encoder = noEncoder): Promise<ExecutionRoom> {
  const cursors = new Cursors(Buffer.alloc(32));
  const statuses = new ConnectionStatuses(clock);
  const connections = new ConnectionRepository(database.db);
  const log = new MemoryLog();
  const waiting = new EventEmitter();
  const shared = { statuses, arrivals: new Arrivals(clock), clock, log };
  const connector = new GatewayConnector({ ...shared, connections });
  const brokers = { ...shared, backoff: { firstMs: 5, mostMs: 20 } };
  const hub = new ConnectorHub([connector, new MqttConnector(brokers), new ChirpStackConnector({ ...brokers, holdMs: 100 })], (connection) => ({ connection, settings: connection.configuration }));
  const executions = new Executions({ database, hub, encoder, clock, cursors, log });
  const uplinks = new UplinkPipeline({ database, log, positions: new ReadingPositions(clock), series: new SeriesNumbers(), judge: async (db, uplink) => await executions.judge(db, uplink) });
  hub.start({
    uplink: async (message) => await uplinks.handle(message),
    evidence: async (...evidence) => await executions.evidence(...evidence),
    deviceEvidence: async (...found) => await executions.deviceEvidence(...found),
    attached: async (attachment) => await executions.attached(attachment),
    detached: async (organizationId, connectionId) => await executions.detached(organizationId, connectionId),
    ready: (organizationId, connectionId) => {
      executions.ready(organizationId, connectionId);
      waiting.emit('ready');
    },
  });
  const commands = new CommandService({ database, clock, cursors });
  await executions.start();
  const edge = await startEdge((server) => {
    server.add(ActuatorCommandServiceService, { ...commandHandlers(commands, new EncoderPreviews({ database, encoder, clock })), ...executionHandlers(executions) });
    server.add(GatewayServiceService, gatewayHandlers(connector));
  });
  edge.keys.add('one', { organizationId: 'org-1' });
  edge.keys.add('two', { organizationId: 'org-2' });
  const devices = new DeviceService({
    database,
    clock,
    cursors,
    hooks: {
      sensorsInUse,
      onBindingChanged: async (db, organizationId, id) => await executions.targetRemoved(db, organizationId, id, 'physical_device_changed'),
      onDeviceDeleted: async (db, organizationId, id) => await executions.targetRemoved(db, organizationId, id, 'device_deleted'),
    },
  });
  return roomOf({ database, log, edge, clock, cursors, executions, devices, connections, statuses, hub, waiting });
}

interface Parts {
  readonly log: MemoryLog;
  readonly database: Database;
  readonly edge: TestEdge;
  readonly clock: TestClock;
  readonly cursors: Cursors;
  readonly executions: Executions;
  readonly devices: DeviceService;
  readonly connections: ConnectionRepository;
  readonly statuses: ConnectionStatuses;
  readonly hub: ConnectorHub;
  /** Emits `ready` when there may be room on a connection. */
  readonly waiting: EventEmitter;
}

/** A request to execute. */
function requestOf(target: Pick<Target, 'deviceId' | 'commandId'>, overrides?: Partial<ExecuteCommandRequest>): ExecuteCommandRequest {
  return { id: target.deviceId, commandId: target.commandId, organizationId: '', params: undefined, ...overrides };
}

const USUAL_TARGET = { connectionId: undefined, bound: true, command: {}, expects: false, valueType: undefined, levelPath: 'level' };

function roomOf({ database, log, edge, clock, cursors, executions, devices, connections, statuses, hub, waiting }: Parts): ExecutionRoom {
  const client = edge.client(ActuatorCommandServiceClient);
  const uow = new UnitOfWork(database, sensorTemplateRepositories);
  const hooks = { sensorsInUse, onBindingChanged: async () => {}, onDeviceDeleted: async () => {} };
  const sensors = new SensorService({ database, clock, hooks });
  const templates = new SensorTemplateService({ uow, clock, cursors, sensorUses: async () => 0, valueTypeUses });
  let connectionId: string | undefined;

  const connection: ExecutionRoom['connection'] = async (overrides = {}) => {
    const id = newId();
    const made: Connection = { id, organizationId: 'org-1', connectorId: 'gateway', name: id, description: '', enabled: true, configuration: {}, sealedSecrets: {}, policy: {}, createdAt: 0, updatedAt: 0, revision: 1, ...overrides };
    await connections.create('org-1', made);
    hub.connectionChanged(made);
    return made.id;
  };
  const addSensor = async (deviceId: string, isBound: boolean, sourcePath: string, valueType: ValueType = 'number'): Promise<string> => {
    const [key] = await uow.repos.keys.listSystem();
    const template = await templates.create('org-1', { keyNameId: key?.id ?? '', sensorType: 'valve', valueType, unitMeasurementId: undefined, description: undefined });
    const device = await sensors.add('org-1', deviceId, [template.id]);
    const sensorId = device.sensors[0]?.id ?? '';
    if (isBound) await sensors.setMappings('org-1', deviceId, [{ sensorId, sourcePath }]);
    return sensorId;
  };
  const addCommand: ExecutionRoom['addCommand'] = async (deviceId, overrides = {}) => {
    const definition = CommandDefinition.fromPartial({ name: `Command ${newId()}`, mode: 1, verificationStrategy: 1, directPayload: '{"on": true}', ...overrides });
    const request: CreateCommandRequest = { id: deviceId, organizationId: '', command: definition };
    const command: Command = await call(client.createCommand.bind(client), request, AS_ONE);
    return command.id;
  };
  const get: ExecutionRoom['get'] = async (executionId) => await call(client.getExecution.bind(client), { executionId, organizationId: '' }, AS_ONE);

  return {
    log,
    edge,
    clock,
    statuses,
    client,
    gateways: edge.client(GatewayServiceClient),
    executions,
    devices,
    connection,
    reopen: async (id) => hub.connectionChanged(await connections.get('org-1', id)),
    untilConnected: async (connectionId) => {
      while (!hub.peer(connectionId)) await new Promise((resolve) => waiting.once('ready', resolve));
    },
    addCommand,
    target: async (options = {}) => {
      const { connectionId: wanted, bound, command, expects, valueType, clientDeviceId, levelPath } = { ...USUAL_TARGET, clientDeviceId: `client-${newId()}`, ...options };
      connectionId ??= await connection();
      const physicalDevice = bound ? { connectionId: wanted ?? connectionId, clientDeviceId, configuration: undefined } : undefined;
      const { id: deviceId } = await devices.create('org-1', { name: 'Device', physicalDevice });
      const target = { deviceId, clientDeviceId };
      if (expects === false) return { ...target, sensorId: '', commandId: await addCommand(deviceId, command) };
      const sensorId = await addSensor(deviceId, bound, levelPath, valueType);
      return { ...target, sensorId, commandId: await addCommand(deviceId, { expectedSensorStates: [{ sensorId, valueTemplate: expects === true ? '21' : expects }], ...command }) };
    },
    execute: async (target, overrides) => await call(client.executeCommand.bind(client), requestOf(target, overrides), AS_ONE),
    executeFails: async (target, overrides) => await callFails(client.executeCommand.bind(client), requestOf(target, overrides), AS_ONE),
    get,
    until: async (executionId, state) => {
      await untilState(executions, executionId, state);
      return await get(executionId);
    },
    stop: async () => {
      await edge.stop();
      await hub.stop();
      await executions.stop();
    },
  };
}
