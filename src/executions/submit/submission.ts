import { type Command, deviceVariables, type Encoder, evaluateParams, paramsHash, renderExpected, type TemplateExecution, type TemplateValues } from '../../commands';
import { type Connection, type ConnectorKind, findConnector } from '../../connections';
import type { Device } from '../../devices';
import type { Violation } from '../../kernel/errors';
import { newId } from '../../kernel/ids';
import { InsertionRoom } from '../../kernel/jsonTemplate';
import { type JsonObject, jsonProblem } from '../../kernel/jsonValue';
import { typedValue } from '../../sensorTemplates';
import { type Content, encodeContent, renderContent } from './commandContent';
import type { Execution, ExecutionTimes, ExpectedValue, RejectionReason } from '../execution';
import { draftQuery, freezeQuery, ofQuery, type QueryDraft } from './querySubmission';
import type { SubmitFacts } from './submitFacts';
import { submitTimes } from './submitTimes';
import { UNSENT } from './unsent';

/** What a caller wants executed. */
export interface SubmitRequest {
  readonly deviceId: string;
  readonly commandId: string;
  readonly params: JsonObject;
  /** The caller's own; undefined: the request's id stands for it and nothing is remembered. */
  readonly triggerId: string | undefined;
  readonly requestId: string;
}

/** An execution that would be admitted if nothing speaks against it. */
export interface Submission {
  /** In state enqueued. */
  readonly execution: Execution;
  readonly violations: readonly Violation[];
}

/** A submission that is rendered, and not encoded yet. */
export interface SubmissionDraft extends Submission {
  readonly command: Command;
  /** What is sent, and what is asked afterwards. */
  readonly content: Content | undefined;
  readonly query: QueryDraft | undefined;
}

/**
 * Checks parameters, templates and route, and freezes all that the execution will need but what encoders make. `now` is the time of
 * rendering, which is what `{{execution.enqueuedAt}}` says.
 */
export function prepareExecution(facts: SubmitFacts, request: SubmitRequest, now: number): SubmissionDraft {
  const { device, command, connection } = facts;
  const { params, violations: paramViolations } = evaluateParams(command.paramsSchema, request.params);
  const id = newId();
  const triggerId = request.triggerId ?? request.requestId;
  const evaluated = paramViolations.length === 0;
  const kind = kindOf(connection, command);
  const rendering = evaluated ? render(facts, params, { id, triggerId, enqueuedAt: new Date(now).toISOString() }) : NOTHING;
  const times = submitTimes({ kind, policy: connection?.policy ?? {}, device });
  const execution: Execution = {
    ...UNSENT,
    parentExecutionId: undefined,
    payload: undefined,
    query: undefined,
    id,
    organizationId: device.organizationId,
    deviceId: device.id,
    ...routeOf(device),
    kind,
    ...frozen(command),
    triggerId,
    triggerKey: request.triggerId,
    triggerHash: request.triggerId === undefined ? undefined : hashOf(request.params),
    params: evaluated ? params : request.params,
    paramsHash: hashOf(evaluated ? params : request.params),
    expected: rendering.expected,
    times,
    ...submittedAt(now, times),
  };
  const { content, query } = rendering;
  return { execution, command, content, query, violations: [...routeViolations(facts), ...paramViolations, ...rendering.violations].slice(0, MOST_VIOLATIONS) };
}

/** Whether a draft needs encoders to run. */
export function runsEncoder({ content, query }: SubmissionDraft): boolean {
  return content?.kind === 'input' || query?.command.mode === 'encoded';
}

/** Fills in what is sent. Encoders run only if nothing is wrong so far. Throws as encodeContent. */
export async function encodeSubmission(encoder: Encoder, { execution, command, content, query, violations }: SubmissionDraft, signal?: AbortSignal): Promise<Submission> {
  if (violations.length > 0 || !content) return { execution, violations };
  const encoding = await encodeContent(encoder, execution.kind, command, content, signal);
  const asked = query && (await freezeQuery(encoder, query, signal));
  return {
    execution: { ...execution, payload: encoding.payload, fPort: encoding.payload ? encoding.fPort : execution.fPort, query: asked?.part },
    violations: [...encoding.violations, ...(asked?.violations ?? [])],
  };
}

/** The same submission, made at that time: encoders may have waited long for their turn, and that is not taken from the time of delivery. */
export function restamped({ execution, violations }: Submission, now: number): Submission {
  return { execution: { ...execution, ...submittedAt(now, execution.times) }, violations };
}

/** What two executions share that would do the same at the same time. */
export function dedupeKeyOf(execution: Execution): string {
  return `${execution.commandId}:${execution.commandRevision}:${execution.paramsHash}`;
}

/** The same execution, never admitted. */
export function rejected(execution: Execution, reason: RejectionReason, violations: readonly Violation[]): Execution {
  return { ...execution, state: 'request_rejected', rejectionReason: reason, violations, tDelivery: undefined, finishedAt: execution.enqueuedAt };
}

// Enough for a person to read; kept with the execution.
const MOST_VIOLATIONS = 100;

interface RenderedExecution extends Pick<SubmissionDraft, 'content' | 'query' | 'violations'> {
  readonly expected: readonly ExpectedValue[];
}
const NOTHING: RenderedExecution = { content: undefined, query: undefined, expected: [], violations: [] };

function submittedAt(now: number, times: ExecutionTimes): Pick<Execution, 'enqueuedAt' | 'tDelivery' | 'updatedAt'> {
  return { enqueuedAt: now, tDelivery: now + times.deliveryMs, updatedAt: now };
}

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

function render(facts: SubmitFacts, params: JsonObject, execution: TemplateExecution): RenderedExecution {
  const { device, command, query, connection } = facts;
  // Templates are checked for a device without a route too, so that everything is said at once.
  const target = { id: device.id, name: device.name, clientDeviceId: device.physicalDevice?.clientDeviceId ?? '' };
  const values = { params, device: target, execution, room: new InsertionRoom() };
  const variables = deviceVariables(device);
  const { content, violations } = renderContent(command, values, variables);
  const states = expectedValues(facts, values);
  // Without a route nothing of it is ever sent; then only what is wrong with it counts.
  const asked = query && draftQuery(query, kindOf(connection, query) ?? 'gateway', values, variables);
  const expected = states.violations.length > 0 ? [] : states.expected;
  return { content, query: asked?.part, expected, violations: [...violations, ...states.violations, ...(asked?.violations ?? [])] };
}

/** With the value types of their sensors: a value that the sensor can never show is refused. */
function expectedValues({ device, command, templates }: SubmitFacts, values: TemplateValues): Pick<RenderedExecution, 'expected' | 'violations'> {
  const { expected: states, violations } = renderExpected(command, values);
  const valueTypes = new Map(templates.map((template) => [template.id, template.valueType]));
  const templateIds = new Map(device.sensors.map((sensor) => [sensor.id, sensor.sensorTemplateId]));
  const expected = states.map(({ sensorId, value }) => ({ sensorId, valueType: valueTypes.get(templateIds.get(sensorId) ?? '') ?? 'json', value }));
  const never = expected.filter(({ valueType, value }) => typedValue(valueType, value) === undefined);
  return { expected, violations: [...violations, ...never.map((state) => neverShown(command, state))] };
}

function neverShown({ expectedSensorStates }: Command, { sensorId, valueType, value }: ExpectedValue): Violation {
  const at = expectedSensorStates.findIndex((state) => state.sensorId === sensorId);
  const right = valueType === 'string' ? 'give a text, in quotes where it would else be read as JSON, for example "21"' : `give a value of type ${valueType}, or the sensor another template`;
  return { field: `command.expectedSensorStates[${at}].valueTemplate`, description: `is ${JSON.stringify(value).slice(0, 100)}, which a sensor of type ${valueType} never shows; ${right}` };
}

function kindOf(connection: Connection | undefined, { confirmed = false }: Command): ConnectorKind | undefined {
  return connection && findConnector(connection.connectorId)?.kindOf(connection.configuration, confirmed);
}

function routeOf({ physicalDevice }: Device): Pick<Execution, 'physicalDeviceId' | 'connectionId' | 'clientDeviceId'> {
  return { physicalDeviceId: physicalDevice?.id, connectionId: physicalDevice?.connectionId, clientDeviceId: physicalDevice?.clientDeviceId };
}

function routeViolations({ device, connection, command, query }: SubmitFacts): readonly Violation[] {
  if (!device.physicalDevice || !connection) return [{ field: 'id', description: 'is a device without a physical device; bind it to one by an update with physicalDevice, then execute' }];
  if (!connection.enabled) return [{ field: 'id', description: `is a device of the connection ${JSON.stringify(connection.name)}, which is switched off; enable the connection, then execute` }];
  const { clientDeviceId } = device.physicalDevice;
  return [...transportViolations(connection, clientDeviceId, command), ...(query ? ofQuery(query, transportViolations(connection, clientDeviceId, query)) : [])];
}

/** What keeps the connection from carrying a command. */
function transportViolations({ connectorId, configuration }: Connection, clientDeviceId: string, { mode, mqttTopic: topic = '', fPort, confirmed = false }: Command): readonly Violation[] {
  return findConnector(connectorId)?.checkCommand(configuration, { clientDeviceId, mode, topic, fPort, confirmed }) ?? [];
}

/** Parameters that are no JSON have no hash: nothing equals them. */
function hashOf(params: JsonObject): string {
  return jsonProblem(params) === undefined ? paramsHash(params) : '';
}
