import {
  type Command,
  getDeviceVariables,
  type Encoder,
  evaluateParams,
  hashParams,
  renderExpectedStates,
  type TemplateExecution,
  type TemplateValues,
} from '../../commands';
import {
  type Connection,
  findConnector,
  findConnectorKind,
  findProfileId,
  type RoutedCommand,
} from '../../connections';
import type { Device, PhysicalDevice } from '../../devices';
import type { Violation } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import { InsertionBudget } from '../../kernel/jsonTemplate';
import { type JsonObject, findJsonProblem } from '../../kernel/jsonValue';
import { convertToType } from '../../sensorTemplates';
import { type Content, encodeContent, renderContent } from './commandContent';
import type { Execution, ExecutionPolicy, ExpectedValue, RejectionReason } from '../execution';
import { draftQuery, encodeQuery, toQueryCommandViolations, type QueryDraft } from './querySubmission';
import type { ExecutionInputs } from './executionInputs';
import { computeExecutionPolicy } from './executionPolicy';
import { INITIAL_EXECUTION } from './initialExecution';

/** The request of a caller to execute a command. */
export interface SubmitRequest {
  readonly deviceId: string;
  readonly commandId: string;
  readonly params: JsonObject;
  /** The caller's trigger id; undefined: the request id is used and nothing is stored. */
  readonly triggerId: string | undefined;
  readonly requestId: string;
}

/** An execution that is ready to be stored, or its violations. */
export interface Submission {
  /** In state enqueued. */
  readonly execution: Execution;
  readonly violations: readonly Violation[];
  /** The caller's trigger id. Without one, a repeated request is not recognized after the execution is final. */
  readonly trigger: SubmittedTrigger | undefined;
}

/** A trigger id of a caller, and the received params. */
interface SubmittedTrigger {
  readonly key: string;
  /**
   * SHA-256 (hex) of the canonical JSON (RFC 8785) of the params without defaults; empty if they were not valid JSON.
   */
  readonly paramsHash: string;
}

/** A submission that is rendered, but not encoded yet. */
export interface SubmissionDraft extends Submission {
  readonly command: Command;
  /** What is sent; undefined: the parameters or templates are invalid. */
  readonly content: Content | undefined;
  /** The query (QueryDraft) that is sent after it; undefined: none. */
  readonly query: QueryDraft | undefined;
}

/**
 * Checks parameters, templates and route, and copies everything that the execution needs, except the results of
 * encoders. Later changes of the device and the command do not affect the execution. `now` (Unix milliseconds) is the
 * time that templates read as `{{execution.enqueuedAt}}`.
 */
export function prepareExecution(inputs: ExecutionInputs, request: SubmitRequest, now: number): SubmissionDraft {
  const { device, command, connection } = inputs;
  const { params, violations: paramViolations } = evaluateParams(command.paramsSchema, request.params);
  const id = newId();
  const triggerId = request.triggerId ?? request.requestId;
  const areParamsValid = paramViolations.length === 0;
  const kind = findConnectorKind(connection, command);
  const rendering = areParamsValid
    ? renderExecution(inputs, params, { id, triggerId, enqueuedAt: new Date(now).toISOString() })
    : NOT_RENDERED;
  const policy = computeExecutionPolicy({
    kind,
    policy: connection?.policy ?? {},
    device,
    isDirect: command.mode === 'direct',
  });
  const execution: Execution = {
    ...INITIAL_EXECUTION,
    parentExecutionId: undefined,
    payload: undefined,
    query: undefined,
    id,
    organizationId: device.organizationId,
    deviceId: device.id,
    ...getRoute(device),
    kind,
    ...snapshotCommand(command),
    triggerId,
    params: areParamsValid ? params : request.params,
    paramsHash: computeHash(areParamsValid ? params : request.params),
    expected: rendering.expected,
    policy,
    ...startDeadlines(now, policy),
  };
  const { content, query } = rendering;
  const trigger =
    request.triggerId === undefined ? undefined : { key: request.triggerId, paramsHash: computeHash(request.params) };
  const violations = [...listRouteViolations(inputs), ...paramViolations, ...rendering.violations].slice(
    0,
    MAX_VIOLATIONS,
  );
  return { execution, command, content, query, violations, trigger };
}

/** Whether the command or its query needs an encoder to create its payload. */
export function needsEncoder({ content, query }: SubmissionDraft): boolean {
  return content?.kind === 'input' || query?.command.mode === 'encoded';
}

/**
 * Creates the payload of the command, and the payloads of the query command that verifies it. If there are violations
 * already, no encoder runs. Throws the errors of encodeContent.
 */
export async function encodeSubmission(
  encoder: Encoder,
  draft: SubmissionDraft,
  signal?: AbortSignal,
): Promise<Submission> {
  const { execution, command, content, query, violations, trigger } = draft;
  if (violations.length > 0 || !content) return { execution, violations, trigger };
  const encoding = await encodeContent(encoder, execution.kind, command, content, signal);
  const encodedQuery = query && (await encodeQuery(encoder, query, signal));
  return {
    execution: {
      ...execution,
      payload: encoding.payload,
      fPort: encoding.payload ? encoding.fPort : execution.fPort, // a failed encoding has no port
      query: encodedQuery?.query,
    },
    violations: [...encoding.violations, ...(encodedQuery?.violations ?? [])],
    trigger,
  };
}

/**
 * Returns the same submission as if it were enqueued at `now` (Unix milliseconds): the wait for an encoder must not
 * shorten the time for delivery.
 */
export function restartDeadlines({ execution, ...submission }: Submission, now: number): Submission {
  return { ...submission, execution: { ...execution, ...startDeadlines(now, execution.policy) } };
}

/** Returns the execution in state request_rejected. */
export function toRejected(execution: Execution, reason: RejectionReason, violations: readonly Violation[]): Execution {
  return {
    ...execution,
    state: 'request_rejected',
    rejectionReason: reason,
    violations,
    tDelivery: undefined,
    finishedAt: execution.enqueuedAt,
  };
}

// A longer list helps nobody, and the list is stored with the execution.
const MAX_VIOLATIONS = 100;

/** The result of all templates of a command. */
interface RenderedExecution extends Pick<SubmissionDraft, 'content' | 'query' | 'violations'> {
  readonly expected: readonly ExpectedValue[];
}
const NOT_RENDERED: RenderedExecution = { content: undefined, query: undefined, expected: [], violations: [] };

/** Returns the times of an execution that is enqueued now, with the deadline of its delivery. */
function startDeadlines(
  now: number,
  { deliveryMs }: ExecutionPolicy,
): Pick<Execution, 'enqueuedAt' | 'tDelivery' | 'updatedAt'> {
  return { enqueuedAt: now, tDelivery: now + deliveryMs, updatedAt: now };
}

/** Copies the fields of a command into its execution, so that later changes of the command do not affect it. */
function snapshotCommand(command: Command) {
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

/** Renders the content, the expected sensor states and the query of a command, with all violations. */
function renderExecution(inputs: ExecutionInputs, params: JsonObject, execution: TemplateExecution): RenderedExecution {
  const { device, command, queryCommand, connection } = inputs;
  // Templates are checked even if the device has no route, so that all violations are reported together.
  const target = { id: device.id, name: device.name, clientDeviceId: device.physicalDevice?.clientDeviceId ?? '' };
  const values = { params, device: target, execution, budget: new InsertionBudget() };
  const variables = getDeviceVariables(device);
  const { content, violations } = renderContent(command, values, variables);
  const expectedStates = renderExpectedValues(inputs, values);
  // Without a route the query is never sent; then only its violations matter.
  const queryDraft =
    queryCommand &&
    draftQuery(queryCommand, findConnectorKind(connection, queryCommand) ?? 'gateway', values, variables);
  const expected = expectedStates.violations.length > 0 ? [] : expectedStates.expected;
  return {
    content,
    query: queryDraft?.query,
    expected,
    violations: [...violations, ...expectedStates.violations, ...(queryDraft?.violations ?? [])],
  };
}

/**
 * Renders the expected sensor states and adds the value types of the sensors. A value that the sensor can never report
 * is a violation.
 */
function renderExpectedValues(
  { device, command, templates }: ExecutionInputs,
  values: TemplateValues,
): Pick<RenderedExecution, 'expected' | 'violations'> {
  const { expected: states, violations } = renderExpectedStates(command, values);
  const typeByTemplate = new Map(templates.map((template) => [template.id, template.valueType]));
  const templateBySensor = new Map(device.sensors.map((sensor) => [sensor.id, sensor.sensorTemplateId]));
  const expected = states.map(({ sensorId, value }) => ({
    sensorId,
    valueType: typeByTemplate.get(templateBySensor.get(sensorId) ?? '') ?? 'json',
    value,
  }));
  const neverReported = expected.filter(({ valueType, value }) => convertToType(valueType, value) === undefined);
  return {
    expected,
    violations: [...violations, ...neverReported.map((state) => toNeverReportedViolation(command, state))],
  };
}

/** Creates the violation for an expected value that does not fit the type of its sensor. */
function toNeverReportedViolation(
  { expectedSensorStates }: Command,
  { sensorId, valueType, value }: ExpectedValue,
): Violation {
  const index = expectedSensorStates.findIndex((state) => state.sensorId === sensorId);
  const advice =
    valueType === 'string'
      ? 'use a string, in quotes if it would otherwise be parsed as JSON, for example "21"'
      : `use a value of type ${valueType}, or assign another template to the sensor`;
  return {
    field: `command.expectedSensorStates[${index}].valueTemplate`,
    description: `is ${JSON.stringify(value).slice(0, 100)}, which a sensor of type ${valueType} never reports; ${advice}`,
  };
}

/** Returns the ids of the physical device; all undefined if the device is not bound. */
function getRoute({ physicalDevice }: Device): Pick<Execution, 'physicalDeviceId' | 'connectionId' | 'clientDeviceId'> {
  return {
    physicalDeviceId: physicalDevice?.id,
    connectionId: physicalDevice?.connectionId,
    clientDeviceId: physicalDevice?.clientDeviceId,
  };
}

/**
 * Returns why the command cannot be sent: no physical device, a disabled connection, or a command that the connection
 * cannot send. The query command, which is sent afterwards to query the state of the device, must be one that the
 * connection can send too.
 */
function listRouteViolations({ device, connection, command, queryCommand }: ExecutionInputs): readonly Violation[] {
  if (!device.physicalDevice || !connection)
    return [
      {
        field: 'id',
        description: 'is a device without a physical device; update the device with physicalDevice first, then execute',
      },
    ];
  if (!connection.enabled)
    return [
      {
        field: 'id',
        description: `is a device of the connection ${JSON.stringify(connection.name)}, which is disabled; enable the connection, then execute`,
      },
    ];
  const { physicalDevice } = device;
  return [
    ...listTransportViolations(connection, physicalDevice, command),
    ...(queryCommand
      ? toQueryCommandViolations(queryCommand, listTransportViolations(connection, physicalDevice, queryCommand))
      : []),
  ];
}

/** Returns why the connection cannot send the command. */
function listTransportViolations(
  { connectorId, configuration }: Connection,
  physicalDevice: PhysicalDevice,
  { mode, mqttTopic: topic = '', fPort, confirmed = false }: Command,
): readonly Violation[] {
  const { clientDeviceId } = physicalDevice;
  return (
    findConnector(connectorId)?.checkCommand(configuration, {
      clientDeviceId,
      mode,
      topic,
      fPort,
      confirmed,
      networkCodec: getNetworkCodec(physicalDevice),
    }) ?? []
  );
}

/**
 * Returns whether the network server has a codec for the device: it does if it decodes the payloads. Also `missing` for
 * a device with a device profile, because then this server decodes them.
 */
function getNetworkCodec({ configuration, networkDecodes }: PhysicalDevice): RoutedCommand['networkCodec'] {
  if (networkDecodes === false || findProfileId(configuration) !== undefined) return 'missing';
  return networkDecodes ? 'present' : 'unknown';
}

/** Returns the hash of params; empty for params that are not valid JSON, which match no other params. */
function computeHash(params: JsonObject): string {
  return findJsonProblem(params) === undefined ? hashParams(params) : '';
}
