import type { ConnectionRepository, UplinkMessage, UplinkOutcome } from '../../connections';
import type { Binding, UplinkRepository } from '../../devices';
import type { SampleTimes, SensedUplink } from '../../executions';
import type { Decoded } from '../decoding/uplinkDecoder';
import type { ConnectorKeyRepository } from '../keys/connectorKeyRepository';
import type { LatestReadingRepository } from '../readings/latestReadingRepository';
import type { NewReading, ReadingRepository } from '../readings/readingRepository';
import { type MappedValue, readingsOf, readingTime } from '../readings/readings';
import type { RefusedValueRepository } from '../readings/refusedValueRepository';
import type { Series } from '../readings/seriesRepository';
import type { StoredReading } from '../readings/storedReading';
import type { DiscoveredDeviceRepository } from './discoveredDeviceRepository';
import { flatten, type Sample } from './flatten';
import type { SeenUplinkRepository } from './seenUplinkRepository';

/** What the steps read and write, bound to the one transaction of an uplink. */
export interface UplinkRepositories {
  readonly connections: ConnectionRepository;
  readonly devices: UplinkRepository;
  readonly keys: ConnectorKeyRepository;
  readonly seen: SeenUplinkRepository;
  readonly discovered: DiscoveredDeviceRepository;
  readonly latest: LatestReadingRepository;
  readonly readings: ReadingRepository;
  readonly refused: RefusedValueRepository;
  /** SeriesNumbers.of, in the same transaction. */
  seriesOf(organizationId: string, sensorIds: readonly string[]): Promise<ReadonlyMap<string, Series>>;
  /** UplinkPipelineOptions.judge, in the same transaction. */
  judge(uplink: SensedUplink): Promise<void>;
}

/** What the steps learn on the way; the message itself never changes. */
export interface UplinkState {
  readonly message: UplinkMessage;
  /** What is stored beside the payload. */
  readonly decoded: Decoded;
  /** Of its readings (ReadingPositions). */
  readonly position: number;
  /** The payload as an object. */
  values: Readonly<Record<string, unknown>>;
  samples: readonly Sample[];
  /** Whether the samples are all that the payload holds. */
  isComplete: boolean;
  /** The digital device; undefined while the physical device is bound to none. */
  binding: Binding | undefined;
  /** Whether it is bound to none and was not seen before. */
  isDiscovery: boolean;
  /** What the device's sensors show. */
  taken: readonly MappedValue[];
  /** Values that are none of their sensor's type. */
  refused: readonly MappedValue[];
  /** What of it is on disk at the end. */
  stored: readonly StoredReading[];
}

/** `continue`, or how the uplink ends here; a stop is a normal end, not an error. */
export type StepOutcome = 'continue' | { readonly stop: UplinkOutcome };

/** One step of an uplink's way. */
export type UplinkStep = (state: UplinkState, repos: UplinkRepositories) => StepOutcome | Promise<StepOutcome>;

/** The way of an uplink, all of it in one transaction. */
export const UPLINK_STEPS: readonly (readonly [name: string, step: UplinkStep])[] = [
  ['check_ids', checkIds],
  ['read_payload', readPayload],
  ['remember_uplink', rememberUplink],
  ['find_device', findDevice],
  ['store_connector_keys', storeConnectorKeys],
  ['count_unknown_device', countUnknownDevice],
  ['touch_last_seen', touchLastSeen],
  ['read_sensors', readSensors],
  ['judge_executions', judgeExecutions],
  ['store_latest', storeLatest],
  ['store_readings', storeReadings],
  ['count_refused_values', countRefusedValues],
];

const UNUSABLE = /[\p{Cc}\p{Cs}]/u; // control characters, and halves of surrogate pairs
const DUPLICATE: StepOutcome = { stop: { outcome: 'duplicate' } };

function checkIds({ message }: UplinkState): StepOutcome {
  if (message.identity.kind === 'id' && !isId(message.identity.uplinkId, 64)) return rejected('uplink_id_invalid');
  return isId(message.clientDeviceId, 255) ? 'continue' : rejected('client_device_id_invalid');
}

/** The source paths of a payload are those of its values. */
function readPayload(state: UplinkState): StepOutcome {
  state.values = { ...valuesOf(state.message), ...state.decoded };
  const flattened = flatten(state.values);
  if ('reason' in flattened) return rejected(flattened.reason);
  state.samples = flattened.samples;
  state.isComplete = flattened.isComplete;
  return 'continue';
}

/** The id of a stored uplink is remembered for 7 days. Throws `connection_not_found`. */
async function rememberUplink({ message }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { organizationId, connectionId, identity } = message;
  const isNew = await repos.seen.remember(organizationId, connectionId, identity, Math.floor(message.receivedAt));
  if (isNew && (identity.kind !== 'none' || (await repos.seen.isConnection(organizationId, connectionId)))) return 'continue';
  await repos.connections.get(organizationId, connectionId); // a deleted connection remembers nothing either
  return isNew ? 'continue' : DUPLICATE;
}

/** A physical device that is bound to none goes on: its keys are what a binding is previewed with. */
async function findDevice(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { organizationId, connectionId, clientDeviceId } = state.message;
  state.binding = await repos.devices.findBinding(organizationId, connectionId, clientDeviceId);
  return 'continue';
}

async function storeConnectorKeys({ message, samples }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  await repos.keys.store(message.organizationId, message, samples, sampledAt(message), Math.floor(message.receivedAt));
  return 'continue';
}

/** Whoever runs the site can adopt it. */
async function countUnknownDevice(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { message, binding, values } = state;
  if (!binding) state.isDiscovery = await repos.discovered.seen(message.organizationId, message, Math.floor(message.receivedAt), values);
  return 'continue';
}

/**
 * Nothing after it may count on uplinks of one device waiting for each other here: a connector hands them in one after the other, and on PostgreSQL
 * only those wait that set the time anew. Of two at once one gap of the rhythm may be lost.
 */
async function touchLastSeen({ message, binding }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  if (binding) await repos.devices.received(message.organizationId, binding, { ...timesOf(message), isBuffered: message.isBuffered === true, deviceClass: message.deviceClass });
  return 'continue';
}

/** The device's mappings, applied to all that the payload holds. */
function readSensors(state: UplinkState): StepOutcome {
  const { values, binding } = state;
  if (!binding) return 'continue';
  const { taken, refused } = readingsOf(values, binding.mapped);
  state.taken = taken;
  state.refused = refused;
  return 'continue';
}

/** Before the readings are stored, because it also counts what the sensors showed until now. */
async function judgeExecutions({ message, binding, taken }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  if (!binding) return 'continue';
  const { organizationId } = message;
  const { deviceId, physicalDeviceId } = binding;
  const times = timesOf(message);
  const readings = taken.map(({ sensorId, sourcePath, value }) => ({ sensorId, sourcePath, value, ...times }));
  await repos.judge({ organizationId, deviceId, physicalDeviceId, ...times, readings, latestOf: async (sensorIds) => await repos.latest.find(organizationId, physicalDeviceId, sensorIds) });
  return 'continue';
}

async function storeLatest({ message, binding, taken }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  if (binding) await repos.latest.store(message.organizationId, binding.physicalDeviceId, timesOf(message), taken);
  return 'continue';
}

async function storeReadings(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { message, taken, position } = state;
  if (taken.length === 0) return 'continue';
  const time = readingTime(timesOf(message));
  const series = await repos.seriesOf(message.organizationId, taken.map(({ sensorId }) => sensorId));
  const stored = taken.map(({ sensorId, valueType, value }) => ({ sensorId, valueType, value, time, position }));
  await repos.readings.store(stored.flatMap((reading) => newReading(reading, series.get(reading.sensorId))));
  state.stored = stored;
  return 'continue';
}

async function countRefusedValues({ message, refused }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  // One order for all, so that two uplinks never wait for each other's rows.
  for (const value of refused.toSorted((one, other) => (one.sensorId < other.sensorId ? -1 : 1))) await repos.refused.count(message.organizationId, value, Math.floor(message.receivedAt));
  return 'continue';
}

function newReading(reading: StoredReading, series: Series | undefined): NewReading[] {
  return series ? [{ reading, series }] : [];
}

/** The payload as an object; of bytes all of them as lower-case hex digits, and the port where there is one. */
function valuesOf({ payload, fPort }: UplinkMessage): Readonly<Record<string, unknown>> {
  if (payload.kind === 'json') return payload.value;
  return { bytes: Buffer.from(payload.bytes).toString('hex'), ...(fPort !== undefined && { fPort }) };
}

/** A time that is none is left out. */
function timesOf({ time, clock, receivedAt, isBuffered = false, fCnt }: UplinkMessage): SampleTimes {
  const isTime = time !== undefined && Number.isFinite(time);
  return { receivedAt, ownTime: isTime ? Math.floor(time) : undefined, clock: isTime ? clock : undefined, fCnt, ...(isBuffered && { isBuffered }) };
}

/** A device whose clock runs ahead must not keep its later samples out. */
function sampledAt({ time, receivedAt }: UplinkMessage): number {
  return Math.floor(time !== undefined && time >= 0 && time <= receivedAt ? time : receivedAt);
}

function isId(text: string, longest: number): boolean {
  return text !== '' && Array.from(text).length <= longest && !UNUSABLE.test(text);
}

function rejected(reason: string): StepOutcome {
  return { stop: { outcome: 'rejected', reason } };
}
