import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Db } from '../../database';
import type { Change, EventOrigin } from '../changes/changePlan';
import { type Execution, isFinal } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ExecutionRepository } from '../store/executionRepository';
import { EXECUTION_BATCH_SIZE } from '../store/openStatements';
import type { ExecutionStore } from '../changes/executionStore';
import {
  expectsOtherValue,
  isAfterDelivery,
  isNewerThanDispatch,
  type Reading,
  replaces,
  type SampleTimes,
  matchesExpected,
  mayShowEffect,
} from './sensorComparison';

/** An uplink with which the executions of its device are checked. */
export interface UplinkSample extends SampleTimes {
  readonly organizationId: string;
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  /**
   * Whether the server could read values from its payload. An empty payload, or one that could not be decoded, is no
   * evidence about a command.
   */
  readonly isReadable: boolean;
  /** LoRaWAN: whether the network server decodes the device's payloads; undefined if unknown. */
  readonly networkDecodes?: boolean | undefined;
  /** The sensor readings of the uplink; at most one per sensor. */
  readonly readings: readonly Reading[];
  /**
   * Returns the last readings of these sensors before this uplink, on this physical device and by the path that they
   * are mapped to now. Sensors without readings are omitted.
   */
  findLatest(sensorIds: readonly string[]): Promise<ReadonlyMap<string, Reading>>;
}

/** The last reading of each sensor, before and with the uplink. */
interface SensorReadings {
  /** The readings of the uplink itself. */
  readonly ofUplink: ReadonlyMap<string, Reading>;
  readonly beforeUplink: ReadonlyMap<string, Reading>;
  readonly afterUplink: ReadonlyMap<string, Reading>;
}

const MAX_ATTEMPTS = 5;
/** What an uplink without expected states proves, for users. */
const UPLINK_MESSAGE =
  'an uplink came after the command was sent; it does not show that the device received the command';
const ORIGIN: EventOrigin = { source: 'uplink' };
/** The maximum of a JavaScript date, Unix milliseconds; the minimum is the negative of it. */
const MAX_DATE_MS = 8.64e15;

/** Changes executions according to the sensor readings of their device's uplinks. */
export class SensorEvidence {
  constructor(private readonly executionStore: ExecutionStore) {}

  /**
   * Checks the executions of the uplink's physical device that wait for it, in queue order, inside the uplink's
   * transaction. Costs one query if there are none. Many are processed in batches, so that other work runs in between.
   */
  async evaluateUplink(db: Db, uplink: UplinkSample): Promise<void> {
    const { organizationId, deviceId, physicalDeviceId } = uplink;
    const executions = new ExecutionRepository(db);
    const changedIds = new Set<string>();
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const ids = await executions.listIdsAwaitingUplink(organizationId, deviceId, physicalDeviceId);
      const waiting = await executions.listWithoutPayload(
        organizationId,
        ids.filter((id) => !changedIds.has(id)),
      );
      if (waiting.length === 0) return;
      const changes = await this.planChanges(executions, uplink, waiting);
      const stored = await this.executionStore.save(db, organizationId, changes);
      if (stored.length === changes.length) return;
      for (const { after } of stored) changedIds.add(after.id);
    }
    throw new Error(`executions of device ${deviceId} kept changing while an uplink was checked`);
  }

  /** Plans the changes of the waiting executions, in batches, so that other work runs in between. */
  private async planChanges(
    executions: ExecutionRepository,
    uplink: UplinkSample,
    waiting: readonly Execution[],
  ): Promise<Change[]> {
    const readings = await collectReadings(uplink, waiting);
    const unanswered = await findUnansweredQueries(executions, uplink, waiting);
    const changes: Change[] = [];
    for (const [index, execution] of waiting.entries()) {
      if (index > 0 && index % EXECUTION_BATCH_SIZE === 0) await yieldToEventLoop();
      const change = unanswered.has(execution) ? undefined : this.planChange(execution, uplink, readings);
      if (change) changes.push(await this.attributeMismatch(executions, change, uplink));
    }
    return changes;
  }

  /** Plans the change by the strongest event that changes the execution; undefined if no event does. */
  private planChange(execution: Execution, uplink: UplinkSample, readings: SensorReadings): Change | undefined {
    for (const event of listUplinkEvents(execution, uplink, readings)) {
      const change = this.executionStore.plan(execution, event, ORIGIN);
      if (change) return change;
    }
    return undefined;
  }

  /**
   * Returns the same change, unless it finishes an execution by a mismatch that a newer command may have caused: the
   * newer command was sent before the sample. Then the execution finishes as superseded, because its own effect was not
   * observed.
   */
  private async attributeMismatch(
    executions: ExecutionRepository,
    change: Change,
    uplink: UplinkSample,
  ): Promise<Change> {
    const { before, after } = change;
    if (!isFinal(after.state) || after.detail !== 'verification_mismatch') return change;
    const newer = (await executions.listSentAfter(before)).find(
      (candidate) => mayUndoEffect(candidate, before) && mayShowEffect(candidate, uplink),
    );
    if (!newer) return change;
    const values = getValuesOfExpectedSensors(before, uplink.readings);
    return this.executionStore.plan(before, { kind: 'superseded', byExecutionId: newer.id, values }, ORIGIN) ?? change;
  }
}

/** Whether a newer command may change the expected sensors of an older one: its effect is unknown, or another value. */
function mayUndoEffect(newer: Execution, older: Execution): boolean {
  return newer.expected.length === 0 || expectsOtherValue(newer.expected, older.expected);
}

/**
 * Returns the waiting queries that the uplink does not answer. An uplink answers a query if it has a reading
 * of a sensor that the query asked for: one that the query command or the command that sent it (the parent) expects a
 * state of.
 */
async function findUnansweredQueries(
  executions: ExecutionRepository,
  { organizationId, readings }: UplinkSample,
  waiting: readonly Execution[],
): Promise<ReadonlySet<Execution>> {
  const queries = waiting.filter(({ parentExecutionId }) => parentExecutionId !== undefined);
  if (queries.length === 0) return new Set();
  const parentIds = queries.flatMap(({ parentExecutionId }) => parentExecutionId ?? []);
  const parents = await executions.findAll(organizationId, parentIds);
  const hasAnswer = ({ parentExecutionId = '' }: Execution): boolean => {
    const parent = parents.get(parentExecutionId);
    const askedSensorIds = new Set([
      ...(parent?.expected ?? []).map(({ sensorId }) => sensorId),
      ...(parent?.query?.askedSensorIds ?? []),
    ]);
    return readings.some(({ sensorId }) => askedSensorIds.has(sensorId));
  };
  return new Set(queries.filter((query) => !hasAnswer(query)));
}

/** Returns the events that the uplink causes for an execution, the strongest first. */
function listUplinkEvents(execution: Execution, uplink: UplinkSample, readings: SensorReadings): ExecutionEvent[] {
  const events: ExecutionEvent[] = [];
  const samples = listMatchingSamples(execution, readings);
  if (samples.length > 0)
    events.push({
      kind: 'sensors_matched',
      changed: hadOtherValue(execution, readings.beforeUplink),
      samples: samples.map(({ sensorId, value, deviceTime, receivedAt }) => ({
        sensor_id: sensorId,
        value,
        time: formatTime(deviceTime ?? receivedAt),
        received_at: formatTime(receivedAt),
      })),
    });
  // The network server may have sent an empty frame instead of the command. Then the uplink is not a response.
  const mayBeEmpty = execution.policy.isEncodedByNetwork === true && uplink.networkDecodes !== true;
  if (uplink.isReadable && !mayBeEmpty && isAfterDelivery(execution, uplink))
    events.push({
      kind: 'uplink',
      ...(execution.expected.length > 0
        ? { values: getValuesOfExpectedSensors(execution, uplink.readings) }
        : { message: UPLINK_MESSAGE }),
    });
  return events;
}

/**
 * Returns one matching sample for each expected state, newer than the command; an empty list if a state has none, or if
 * no state is expected.
 */
function listMatchingSamples(execution: Execution, readings: SensorReadings): Reading[] {
  const samples = execution.expected.flatMap((expected) => {
    const sample = findNewerSample(execution, expected.sensorId, readings);
    return sample && matchesExpected(expected, sample.value) ? sample : [];
  });
  const doAllMatch = samples.length === execution.expected.length;
  return doAllMatch ? samples : [];
}

/**
 * Returns the last sample of a sensor that is newer than the command. The sample of the uplink counts even if the
 * stored one seems newer, because a clock may have been set back.
 */
function findNewerSample(
  execution: Execution,
  sensorId: string,
  { ofUplink, afterUplink }: SensorReadings,
): Reading | undefined {
  const isNewerThanCommand = execution.state === 'in_transit' ? isNewerThanDispatch : isAfterDelivery;
  return [afterUplink.get(sensorId), ofUplink.get(sensorId)].find(
    (sample) => sample && isNewerThanCommand(execution, sample),
  );
}

/**
 * Whether a sensor had another value before, so that the current value is an effect. For class A, that value must have
 * arrived after dispatch: the first uplink after it opens the receive window and cannot show the effect of the command.
 */
function hadOtherValue(execution: Execution, before: ReadonlyMap<string, Reading>): boolean {
  return execution.expected.some((expected) => {
    const sample = before.get(expected.sensorId);
    return (
      sample !== undefined &&
      !matchesExpected(expected, sample.value) &&
      (!execution.policy.classA || isNewerThanDispatch(execution, sample))
    );
  });
}

/**
 * Returns the values of the uplink for the sensors that the execution expects a value of, by sensor id, for the log.
 */
function getValuesOfExpectedSensors(execution: Execution, readings: readonly Reading[]): Record<string, unknown> {
  const expected = new Set(execution.expected.map(({ sensorId }) => sensorId));
  return Object.fromEntries(
    readings.filter(({ sensorId }) => expected.has(sensorId)).map(({ sensorId, value }) => [sensorId, value]),
  );
}

/** Formats a time; as a number if it is outside the range of calendar dates, because devices may report any time. */
function formatTime(time: number): string {
  return Math.abs(time) <= MAX_DATE_MS ? new Date(time).toISOString() : String(time);
}

/** Reads the last readings of all sensors that the waiting executions expect a value of, before and with the uplink. */
async function collectReadings(uplink: UplinkSample, waiting: readonly Execution[]): Promise<SensorReadings> {
  const sensorIds = waiting.flatMap(({ expected }) => expected.map(({ sensorId }) => sensorId));
  const beforeUplink = await uplink.findLatest(sensorIds);
  const afterUplink = new Map(beforeUplink);
  for (const reading of uplink.readings)
    if (replaces(reading, beforeUplink.get(reading.sensorId))) afterUplink.set(reading.sensorId, reading);
  const ofUplink = new Map(uplink.readings.map((reading) => [reading.sensorId, reading]));
  return { ofUplink, beforeUplink, afterUplink };
}
