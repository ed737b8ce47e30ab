import type { Db } from '../../database';
import type { Change, EventOrigin } from '../ledger/changePlan';
import type { Execution } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ExecutionRepository } from '../store/executionRepository';
import type { Ledger } from '../ledger/ledger';
import { isAfterDelivery, isAfterDispatch, type Reading, replaces, type SampleTimes, showsExpected } from './sensorComparison';

/** An uplink as the executions of its device look at it. */
export interface SensedUplink extends SampleTimes {
  readonly organizationId: string;
  readonly deviceId: string;
  readonly physicalDeviceId: string;
  /** What it says about sensors; each sensor once. */
  readonly readings: readonly Reading[];
  /** What these sensors showed last before this uplink, on this physical device and by the path that they are mapped to now; of those that ever did. */
  latestOf(sensorIds: readonly string[]): Promise<ReadonlyMap<string, Reading>>;
}

/** What sensors show with an uplink: the last of each, before it and with it. */
interface Shown {
  /** What the uplink itself says. */
  readonly read: ReadonlyMap<string, Reading>;
  readonly before: ReadonlyMap<string, Reading>;
  readonly after: ReadonlyMap<string, Reading>;
}

const TRIES = 5;
const ORIGIN: EventOrigin = { source: 'uplink' };
const LAST_DATE = 8.64e15;

/** Settles executions by what an uplink of their device shows. */
export class SensorEvidence {
  constructor(private readonly ledger: Ledger) {}

  /** Judges the executions of the uplink's physical device that wait for it, in the order of their queue, inside the uplink's transaction. Costs one look where there are none; others get their turn where there are many. */
  async judge(db: Db, uplink: SensedUplink): Promise<void> {
    const { organizationId, deviceId, physicalDeviceId } = uplink;
    const executions = new ExecutionRepository(db);
    const judged = new Set<string>();
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      const ids = await executions.awaitingUplink(organizationId, deviceId, physicalDeviceId);
      const waiting = await executions.toSettle(organizationId, ids.filter((id) => !judged.has(id)));
      if (waiting.length === 0) return;
      const shown = await shownBy(uplink, waiting);
      const changes = waiting.flatMap((execution) => this.planFor(execution, uplink, shown) ?? []);
      const stored = await this.ledger.store(db, organizationId, changes);
      if (stored.length === changes.length) return;
      for (const { after } of stored) judged.add(after.id);
    }
    throw new Error(`executions of device ${deviceId} kept changing while an uplink was judged`);
  }

  private planFor(execution: Execution, uplink: SensedUplink, shown: Shown): Change | undefined {
    for (const event of eventsFor(execution, uplink, shown)) {
      const change = this.ledger.plan(execution, event, ORIGIN);
      if (change) return change;
    }
    return undefined;
  }
}

/** What the uplink is to an execution, the strongest first. */
function eventsFor(x: Execution, uplink: SensedUplink, shown: Shown): ExecutionEvent[] {
  const events: ExecutionEvent[] = [];
  const samples = matchingSamples(x, shown);
  if (samples.length > 0) events.push({ kind: 'sensors_matched', changed: showedOther(x, shown.before), samples: samples.map(sampleData) });
  if (isAfterDelivery(x, uplink)) events.push({ kind: 'uplink', ...(x.expected.length > 0 && { values: valuesOf(x, uplink.readings) }) });
  return events;
}

/** The samples that show all that is expected, if they all are newer than the command; else none. */
function matchingSamples(x: Execution, shown: Shown): Reading[] {
  const samples = x.expected.flatMap((expected) => {
    const sample = newerSample(x, expected.sensorId, shown);
    return sample && showsExpected(expected, sample.value) ? sample : [];
  });
  return samples.length === x.expected.length ? samples : [];
}

/** The last sample of a sensor that is newer than the command. That of the uplink, if only it is: a clock that was set back meanwhile makes it seem older than what is stored. */
function newerSample(x: Execution, sensorId: string, { read, after }: Shown): Reading | undefined {
  const counts = x.state === 'in_transit' ? isAfterDispatch : isAfterDelivery;
  return [after.get(sensorId), read.get(sensorId)].find((sample) => sample && counts(x, sample));
}

/**
 * Whether a sensor showed something else before: so what it shows now is an effect. Of class A that must have come since the command left:
 * the first uplink from then on opens the receive window, and cannot show what the command does.
 */
function showedOther(x: Execution, before: ReadonlyMap<string, Reading>): boolean {
  return x.expected.some((expected) => {
    const sample = before.get(expected.sensorId);
    return sample !== undefined && !showsExpected(expected, sample.value) && (!x.times.classA || isAfterDispatch(x, sample));
  });
}

function valuesOf(x: Execution, readings: readonly Reading[]): Record<string, unknown> {
  const expected = new Set(x.expected.map(({ sensorId }) => sensorId));
  return Object.fromEntries(readings.filter(({ sensorId }) => expected.has(sensorId)).map(({ sensorId, value }) => [sensorId, value]));
}

function sampleData({ sensorId, value, ownTime, receivedAt }: Reading): Record<string, unknown> {
  return { sensor_id: sensorId, value, time: isoTime(ownTime ?? receivedAt), received_at: isoTime(receivedAt) };
}

/** A clock may show what no calendar has. */
function isoTime(time: number): string {
  return Math.abs(time) <= LAST_DATE ? new Date(time).toISOString() : String(time);
}

async function shownBy(uplink: SensedUplink, waiting: readonly Execution[]): Promise<Shown> {
  const sensorIds = waiting.flatMap(({ expected }) => expected.map(({ sensorId }) => sensorId));
  const before = await uplink.latestOf(sensorIds);
  const after = new Map(before);
  for (const reading of uplink.readings) if (replaces(reading, before.get(reading.sensorId))) after.set(reading.sensorId, reading);
  return { read: new Map(uplink.readings.map((reading) => [reading.sensorId, reading])), before, after };
}
