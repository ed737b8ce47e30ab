import { type Command, evaluateParams, paramsHash, renderDirect, renderExpected } from '../commands';
import { type Connection, effectivePolicy } from '../connections';
import type { DataSendingInterval, Device } from '../devices';
import type { Violation } from '../kernel/errors';
import { newId } from '../kernel/ids';
import { type JsonObject, jsonProblem } from '../kernel/jsonValue';
import type { SensorTemplate } from '../sensorTemplates';
import type { Execution, ExecutionPayload, ExecutionTimes, ExpectedValue, RejectionReason } from './execution';

/** What a caller wants executed. */
export interface SubmitRequest {
  readonly deviceId: string;
  readonly commandId: string;
  readonly params: JsonObject;
  /** The caller's own; undefined: the request's id stands for it and nothing is remembered. */
  readonly triggerId: string | undefined;
  readonly requestId: string;
}

/** What a request is about, as it is now. */
export interface SubmitFacts {
  readonly device: Device;
  readonly command: Command;
  /** Of the physical device; undefined: the device is bound to none. */
  readonly connection: Connection | undefined;
  /** Those of the sensors that the command expects a state of. */
  readonly templates: readonly SensorTemplate[];
}

/** An execution that would be admitted if nothing speaks against it. */
export interface Submission {
  /** In state enqueued. */
  readonly execution: Execution;
  readonly violations: readonly Violation[];
}

const UNIT_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000, month: 30 * 86_400_000 } as const;
const DEFAULT_INTERVAL_MS = 60_000;

/** Checks parameters, templates and route, and freezes all that the execution will need. */
export function prepareExecution(facts: SubmitFacts, request: SubmitRequest, now: number): Submission {
  const { device, command, connection } = facts;
  const { params, violations: paramViolations } = evaluateParams(command.paramsSchema, request.params);
  const id = newId();
  const triggerId = request.triggerId ?? request.requestId;
  const evaluated = paramViolations.length === 0;
  const rendering = evaluated ? render(facts, params, { id, triggerId, enqueuedAt: new Date(now).toISOString() }) : NOTHING;
  const times = timesOf(device.dataSendingInterval, connection);
  const execution: Execution = {
    ...EMPTY,
    id,
    organizationId: device.organizationId,
    deviceId: device.id,
    ...routeOf(device, connection),
    ...frozen(command),
    triggerId,
    triggerKey: request.triggerId,
    triggerHash: request.triggerId === undefined ? undefined : hashOf(request.params),
    params: evaluated ? params : request.params,
    paramsHash: hashOf(evaluated ? params : request.params),
    expected: rendering.expected,
    payload: rendering.payload,
    times,
    enqueuedAt: now,
    tDelivery: now + times.deliveryMs,
    updatedAt: now,
  };
  return { execution, violations: [...routeViolations(facts), ...modeViolations(command), ...paramViolations, ...rendering.violations] };
}

/** What two executions share that would do the same at the same time. */
export function dedupeKeyOf(execution: Execution): string {
  return `${execution.commandId}:${execution.commandRevision}:${execution.paramsHash}`;
}

/** The same execution, never admitted. */
export function rejected(execution: Execution, reason: RejectionReason, violations: readonly Violation[]): Execution {
  return { ...execution, state: 'request_rejected', rejectionReason: reason, violations, tDelivery: undefined, finishedAt: execution.enqueuedAt };
}

const EMPTY = {
  parentExecutionId: undefined,
  rejectionReason: undefined,
  violations: [],
  state: 'enqueued',
  detail: '',
  detailMessage: '',
  evidence: undefined,
  attempts: 0,
  holdsSlot: false,
  notBefore: undefined,
  sentTo: undefined,
  sentBoot: undefined,
  tAck: undefined,
  tConv: undefined,
  tQuery: undefined,
  dispatchedAt: undefined,
  deliveredAt: undefined,
  peerDeliveredAt: undefined,
  queriesSent: 0,
  query: undefined,
  finishedAt: undefined,
  version: 1,
  eventCount: 1,
} as const;

interface RenderedExecution {
  readonly payload: ExecutionPayload | undefined;
  readonly expected: readonly ExpectedValue[];
  readonly violations: readonly Violation[];
}
const NOTHING: RenderedExecution = { payload: undefined, expected: [], violations: [] };

function frozen(command: Command) {
  return {
    commandId: command.id,
    commandName: command.name,
    commandRevision: command.revision,
    strategy: command.verificationStrategy,
    convergenceTimeout: command.convergenceTimeout,
    fPort: command.fPort,
    confirmed: command.confirmed ?? false,
    topic: command.mqttTopic ?? '',
  };
}

function render({ device, command, templates }: SubmitFacts, params: JsonObject, execution: { id: string; triggerId: string; enqueuedAt: string }): RenderedExecution {
  // Templates are checked for a device without a route too, so that everything is said at once.
  const target = { id: device.id, name: device.name, clientDeviceId: device.physicalDevice?.clientDeviceId ?? '' };
  const direct = command.mode === 'direct' ? renderDirect(command, params, target, execution) : undefined;
  const states = renderExpected(command, params, target, execution);
  const valueTypes = new Map(templates.map((template) => [template.id, template.valueType]));
  const templateIds = new Map(device.sensors.map((sensor) => [sensor.id, sensor.sensorTemplateId]));
  return {
    payload: direct?.payload === undefined ? undefined : { kind: 'json', value: direct.payload },
    expected: states.expected.map(({ sensorId, value }) => ({ sensorId, valueType: valueTypes.get(templateIds.get(sensorId) ?? '') ?? 'json', value })),
    violations: [...(direct?.violations ?? []), ...states.violations],
  };
}

function routeOf(device: Device, connection: Connection | undefined): Pick<Execution, 'physicalDeviceId' | 'connectionId' | 'clientDeviceId' | 'kind'> {
  const { physicalDevice } = device;
  return {
    physicalDeviceId: physicalDevice?.id,
    connectionId: physicalDevice?.connectionId,
    clientDeviceId: physicalDevice?.clientDeviceId,
    kind: connection?.connectorId === 'gateway' ? 'gateway' : undefined,
  };
}

function timesOf(interval: DataSendingInterval | undefined, connection: Connection | undefined): ExecutionTimes {
  const policy = effectivePolicy(connection?.policy ?? {});
  return {
    deliveryMs: policy.deliveryTimeoutMs,
    ackMs: policy.ackTimeoutMs,
    uplinkIntervalMs: interval ? interval.value * UNIT_MS[interval.unit] : DEFAULT_INTERVAL_MS,
    classA: false,
  };
}

function routeViolations({ device, connection }: SubmitFacts): Violation[] {
  if (!device.physicalDevice || !connection) return [{ field: 'id', description: 'is a device without a physical device; bind it to one by an update with physicalDevice, then execute' }];
  if (!connection.enabled) return [{ field: 'id', description: `is a device of the connection ${JSON.stringify(connection.name)}, which is switched off; enable the connection, then execute` }];
  return [];
}

function modeViolations(command: Command): Violation[] {
  const violations: Violation[] = [];
  if (command.mode === 'encoded') violations.push({ field: 'command.mode', description: 'is encoded, which this version of the server cannot carry out yet; use a command of mode direct' });
  if (command.verificationStrategy === 'query_after_ack') {
    violations.push({ field: 'command.verificationStrategy', description: 'is query_after_ack, which this version of the server cannot carry out yet; use no_verification or wait_next_uplink' });
  }
  return violations;
}

/** Parameters that are no JSON have no hash: nothing equals them. */
function hashOf(params: JsonObject): string {
  return jsonProblem(params) === undefined ? paramsHash(params) : '';
}
