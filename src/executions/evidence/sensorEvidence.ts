import type { Db } from '../../database';
import type { Change, EventOrigin } from '../ledger/changePlan';
import type { Execution } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ExecutionRepository } from '../store/executionRepository';
import type { ExecutionStore } from '../ledger/executionStore';
import {
  isAfterDelivery,
  isNewerThanDispatch,
  type Reading,
  replaces,
  type SampleTimes,
  matchesExpected,
} from './sensorComparison';

/** An uplink with which the executions of its device are checked. */
export interface UplinkSample extends SampleTimes {
  readonly organizationId: string;
  readonly deviceId: string;
  readonly physicalDeviceId: string;
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
const ORIGIN: EventOrigin = { source: 'uplink' };
/** The maximum of a JavaScript date, Unix milliseconds; the minimum is the negative of it. */
const MAX_DATE_MS = 8.64e15;

/** Changes executions according to the sensor readings of their device's uplinks. */
export class SensorEvidence {
  constructor(private readonly ledger: ExecutionStore) {}

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
      const readings = await collectReadings(uplink, waiting);
      const changes = waiting.flatMap((execution) => this.planChange(execution, uplink, readings) ?? []);
      const stored = await this.ledger.store(db, organizationId, changes);
      if (stored.length === changes.length) return;
      for (const { after } of stored) changedIds.add(after.id);
    }
    throw new Error(`executions of device ${deviceId} kept changing while an uplink was checked`);
  }

  /** Plans the change by the strongest event that changes the execution; undefined if no event does. */
  private planChange(execution: Execution, uplink: UplinkSample, readings: SensorReadings): Change | undefined {
    for (const event of listUplinkEvents(execution, uplink, readings)) {
      const change = this.ledger.plan(execution, event, ORIGIN);
      if (change) return change;
    }
    return undefined;
  }
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
  if (!mayBeEmpty && isAfterDelivery(execution, uplink))
    events.push({
      kind: 'uplink',
      ...(execution.expected.length > 0 && { values: getValuesOfExpectedSensors(execution, uplink.readings) }),
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
