import type { ConnectionRepository, UplinkMessage, UplinkOutcome } from '../../connections';
import type { Binding, UplinkRepository } from '../../devices';
import type { SampleTimes, UplinkSample } from '../../executions';
import type { Decoded } from '../decoding/uplinkDecoder';
import type { ConnectorKeyRepository } from '../keys/connectorKeyRepository';
import type { LatestReadingRepository } from '../readings/latestReadingRepository';
import type { NewReading, ReadingRepository } from '../readings/readingRepository';
import { type RefusedValue, type SensorValue, getReadings, getReadingTime } from '../readings/readings';
import type { RefusedValueRepository } from '../readings/refusedValueRepository';
import type { Series } from '../readings/seriesRepository';
import type { StoredReading } from '../readings/storedReading';
import type { DiscoveredDeviceRepository } from './discoveredDeviceRepository';
import { flatten, type Sample } from './flatten';
import type { SeenUplinkRepository } from './seenUplinkRepository';
import { findUplinkFailure, isReadable, type UplinkFailure } from './uplinkReadability';

/** The repositories that the steps use, in the transaction of the uplink. */
export interface UplinkRepositories {
  readonly connections: ConnectionRepository;
  readonly devices: UplinkRepository;
  readonly keys: ConnectorKeyRepository;
  readonly seenUplinks: SeenUplinkRepository;
  readonly discovered: DiscoveredDeviceRepository;
  readonly latest: LatestReadingRepository;
  readonly readings: ReadingRepository;
  readonly refused: RefusedValueRepository;
  /** Calls SeriesIdCache.get in the same transaction. */
  getSeries(organizationId: string, sensorIds: readonly string[]): Promise<ReadonlyMap<string, Series>>;
  /** Calls UplinkPipelineOptions.evaluateExecutions in the same transaction. */
  evaluateExecutions(uplink: UplinkSample): Promise<void>;
}

/** The state that the steps share. The message never changes. */
export interface UplinkState {
  readonly message: UplinkMessage;
  /** Fields that are added to the payload. */
  readonly decoded: Decoded;
  /** What the decoder warned about. */
  readonly decoderWarnings: readonly string[];
  /** The position of its readings (see ReadingSequence). */
  readonly position: number;
  /** The payload as an object, with the fields of `decoded`. */
  values: Readonly<Record<string, unknown>>;
  samples: readonly Sample[];
  /** Whether the samples contain all values of the payload. */
  isComplete: boolean;
  /** The bound digital device; undefined for an unbound physical device. */
  binding: Binding | undefined;
  /** Why the uplink has no values for sensors; undefined if it could be read, or has no content. */
  failure: UplinkFailure | undefined;
  /** Whether this is the first uplink of an unbound device. */
  isDiscovery: boolean;
  /** The values with the type of their sensor. */
  accepted: readonly SensorValue[];
  /** The values that their sensors cannot have. */
  refused: readonly RefusedValue[];
  /** The readings that are on disk after the commit. */
  stored: readonly StoredReading[];
}

/** `continue`, or the outcome of an uplink that stops here. A stop is not an error. */
type StepOutcome = 'continue' | { readonly stop: UplinkOutcome };

/** One step of processing an uplink. */
type UplinkStep = (state: UplinkState, repos: UplinkRepositories) => StepOutcome | Promise<StepOutcome>;

/** The steps of processing an uplink, in order. All of them run in one transaction. */
export const UPLINK_STEPS: readonly (readonly [name: string, step: UplinkStep])[] = [
  ['check_ids', checkIds],
  ['read_payload', readPayload],
  ['skip_old_retained', skipOldRetained],
  ['remember_uplink', rememberUplink],
  ['find_device', findDevice],
  ['read_sensors', readSensors],
  ['store_connector_keys', storeConnectorKeys],
  ['record_unbound_device', recordUnboundDevice],
  ['touch_last_seen', touchLastSeen],
  ['evaluate_executions', evaluateExecutions],
  ['store_latest', storeLatest],
  ['store_readings', storeReadings],
  ['count_refused_values', countRefusedValues],
];

const FORBIDDEN_IN_ID = /[\p{Cc}\p{Cs}]/u; // control characters and unpaired surrogates
const DUPLICATE: StepOutcome = { stop: { outcome: 'duplicate' } };

/** Rejects an uplink whose uplink id (at most 64 characters) or device id (at most 255) cannot be stored. */
function checkIds({ message }: UplinkState): StepOutcome {
  if (message.identity.kind === 'id' && !isValidId(message.identity.uplinkId, 64)) return rejected('uplink_id_invalid');
  return isValidId(message.clientDeviceId, 255) ? 'continue' : rejected('client_device_id_invalid');
}

/** Reads the payload and lists its values with their source paths. */
function readPayload(state: UplinkState): StepOutcome {
  state.values = { ...getValues(state.message), ...state.decoded };
  const flattened = flatten(state.values);
  if ('reason' in flattened) return rejected(flattened.reason);
  state.samples = flattened.samples;
  state.isComplete = flattened.isComplete;
  return 'continue';
}

/**
 * Stops a retained uplink as a duplicate unless it was sampled after everything that is stored at one of its paths: the
 * broker sends it again with each subscription. Other paths do not count, because a device may retain a message on each
 * of several topics. Runs before its id is stored, because the same uplink may still arrive from the queue of the
 * broker.
 */
async function skipOldRetained({ message, samples }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  if (message.isRetained !== true) return 'continue';
  const { time, timeSource } = getReadingTime(getTimes(message));
  if (timeSource === 'received') return DUPLICATE; // it has no time of its own, which would show how old it is
  const knownTimes = await findKnownSampleTimes(message, repos);
  const isKnown = knownTimes.aheadUntil !== undefined && time <= knownTimes.aheadUntil;
  const hasNew = samples.some(([path]) => time > (knownTimes.byPath.get(path) ?? Number.NEGATIVE_INFINITY));
  return hasNew && !isKnown ? 'continue' : DUPLICATE;
}

/**
 * Returns the last sample times that are stored for the device of an uplink, Unix milliseconds, by source path. Those
 * of sensors are as the device reported them. Of a device whose clock is ahead, others are times of receipt; then
 * `aheadUntil` is the time that its last uplink reported.
 */
async function findKnownSampleTimes(
  message: UplinkMessage,
  { devices, keys, latest }: UplinkRepositories,
): Promise<{ readonly byPath: ReadonlyMap<string, number>; readonly aheadUntil?: number | undefined }> {
  const { organizationId, connectionId, clientDeviceId } = message;
  const byPath = new Map(
    (await keys.list(organizationId, message)).map(({ name, sampledAt }) => [name, sampledAt] as const),
  );
  const binding = await devices.findBinding(organizationId, connectionId, clientDeviceId);
  if (!binding) return { byPath };
  const sensorIds = binding.mapped.map(({ sensorId }) => sensorId);
  const readings = await latest.find(organizationId, binding.physicalDeviceId, sensorIds);
  for (const { sourcePath, deviceTime = Number.NEGATIVE_INFINITY } of readings.values())
    byPath.set(sourcePath, Math.max(deviceTime, byPath.get(sourcePath) ?? deviceTime));
  const { ownTime, receivedAt = 0 } = binding.uplinkHistory.last ?? {};
  return { byPath, aheadUntil: ownTime !== undefined && ownTime > receivedAt ? ownTime : undefined };
}

/**
 * Stores the id of the uplink for 7 days and detects duplicates. Throws `connection_not_found`. `add` returns true for
 * every uplink without an identity, and false for a duplicate or a missing connection, so these cases are checked
 * further.
 */
async function rememberUplink({ message }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { organizationId, connectionId, identity } = message;
  const isNew = await repos.seenUplinks.add(organizationId, connectionId, identity, Math.floor(message.receivedAt));
  const isConnectionKnown = isNew && identity.kind !== 'none'; // `add` stores an id only for an existing connection
  if (isConnectionKnown) return 'continue';
  if (isNew && (await repos.seenUplinks.isConnection(organizationId, connectionId))) return 'continue';
  // Throws for a deleted connection, for which `add` also returns false.
  await repos.connections.get(organizationId, connectionId);
  return isNew ? 'continue' : DUPLICATE;
}

/**
 * Finds the bound digital device, and why the uplink is not what that device is expected to send. An unbound device
 * continues, because its connector keys are used to preview a binding.
 */
async function findDevice(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { organizationId, connectionId, clientDeviceId } = state.message;
  state.binding = await repos.devices.findBinding(organizationId, connectionId, clientDeviceId);
  state.failure = findUplinkFailure(state);
  return 'continue';
}

/** Applies the sensor mappings of the device to the payload. */
function readSensors(state: UplinkState): StepOutcome {
  const { values, binding } = state;
  if (!binding) return 'continue';
  const { accepted, refused } = getReadings(values, binding.mapped);
  state.accepted = accepted;
  state.refused = refused;
  return 'continue';
}

/** Stores the connector keys: the latest value of each source path, which users see when they map sensors. */
async function storeConnectorKeys({ message, samples }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const time = getReadingTime(getTimes(message)).time;
  await repos.keys.store(message.organizationId, message, samples, time, getSeenAt(message));
  return 'continue';
}

/**
 * Records an unbound device, so that a user can bind it. `isDiscovery`: the device was not known before. Stored times
 * are whole milliseconds; the fraction of `receivedAt` only orders uplinks.
 */
async function recordUnboundDevice(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { message, binding, values, failure } = state;
  if (!binding)
    state.isDiscovery = await repos.discovered.addUplink(message.organizationId, message, getSeenAt(message), {
      payload: values,
      failure: failure?.reason,
    });
  return 'continue';
}

/**
 * Updates the last-seen time of a bound device. This step does not serialize the uplinks of a device: on PostgreSQL it
 * locks the row only if the time changes. Connectors deliver the uplinks of a device one after the other; if two were
 * processed concurrently, one measured interval between uplinks could be lost.
 */
async function touchLastSeen(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { message, binding, failure, decoderWarnings } = state;
  if (!binding) return 'continue';
  const { deviceTime, clock } = getTimes(message);
  await repos.devices.recordUplink(message.organizationId, binding, {
    ownTime: deviceTime, // the stored history of uplinks (JSON) has the names `ownTime` and `clock`
    clock,
    receivedAt: getSeenAt(message),
    isBuffered: message.isBuffered === true,
    deviceClass: message.deviceClass,
    isDecodedByNetwork: message.isDecodedByNetwork,
    arrivedAt: message.receivedAt,
    failure: failure?.reason,
    isReadable: isReadable(state),
    decoderWarnings,
  });
  return 'continue';
}

/**
 * Updates the executions that wait for the uplink. Runs before the readings are stored, because it also needs the
 * previous values of the sensors.
 */
async function evaluateExecutions(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { message, binding, accepted } = state;
  if (!binding) return 'continue';
  const { organizationId } = message;
  const { deviceId, physicalDeviceId } = binding;
  const times = getTimes(message);
  const readings = accepted.map(({ sensorId, sourcePath, value }) => ({ sensorId, sourcePath, value, ...times }));
  const networkDecodes = message.isDecodedByNetwork ?? binding.networkDecodes;
  await repos.evaluateExecutions({
    organizationId,
    deviceId,
    physicalDeviceId,
    isReadable: isReadable(state),
    networkDecodes,
    ...times,
    readings,
    findLatest: async (sensorIds) => await repos.latest.find(organizationId, physicalDeviceId, sensorIds),
  });
  return 'continue';
}

/** Stores the latest reading of each sensor, with the times of the uplink. */
async function storeLatest(
  { message, binding, accepted }: UplinkState,
  repos: UplinkRepositories,
): Promise<StepOutcome> {
  if (binding) await repos.latest.store(message.organizationId, binding.physicalDeviceId, getTimes(message), accepted);
  return 'continue';
}

/** Stores the history of the sensors. Accepted values of a sensor that was deleted meanwhile are skipped. */
async function storeReadings(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { message, accepted, position } = state;
  if (accepted.length === 0) return 'continue';
  const { time, timeSource } = getReadingTime(getTimes(message));
  const series = await repos.getSeries(
    message.organizationId,
    accepted.map(({ sensorId }) => sensorId),
  );
  const stored = accepted.map(({ sensorId, valueType, value }) => ({
    sensorId,
    valueType,
    value,
    time,
    timeSource,
    position,
  }));
  await repos.readings.store(stored.flatMap((reading) => toNewReadings(reading, series.get(reading.sensorId))));
  state.stored = stored;
  return 'continue';
}

/** Counts the values that have the wrong type for their sensor. */
async function countRefusedValues({ message, refused }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  // Rows are always written in the same order, so that two uplinks cannot deadlock.
  for (const value of refused.toSorted((left, right) => (left.sensorId < right.sensorId ? -1 : 1)))
    await repos.refused.add(message.organizationId, value, Math.floor(message.receivedAt));
  return 'continue';
}

function toNewReadings(reading: StoredReading, series: Series | undefined): NewReading[] {
  return series ? [{ reading, series }] : [];
}

/** Returns the payload as an object. Bytes become a string of lower-case hex digits, with the port if there is one. */
function getValues({ payload, fPort }: UplinkMessage): Readonly<Record<string, unknown>> {
  if (payload.kind === 'json') return payload.value;
  return { bytes: Buffer.from(payload.bytes).toString('hex'), ...(fPort !== undefined && { fPort }) };
}

/**
 * Returns the times of an uplink. A device time that is not a finite number is omitted, with its source and clock. An
 * uplink whose time could not be read counts as buffered, because it may have been sampled long ago.
 */
function getTimes(message: UplinkMessage): SampleTimes {
  const { time, timeSource, clock, receivedAt, isRetained = false, fCnt, devAddr } = message;
  const isTime = time !== undefined && Number.isFinite(time);
  const isBuffered = message.isBuffered === true || (time === undefined && message.timeProblem !== undefined);
  return {
    receivedAt,
    deviceTime: isTime ? Math.floor(time) : undefined,
    timeSource: isTime ? timeSource : undefined,
    clock: isTime ? clock : undefined,
    fCnt,
    devAddr,
    ...(isBuffered && { isBuffered }),
    ...(isRetained && { isRetained }),
  };
}

/** Returns when the device was certainly there, Unix milliseconds: a retained uplink may have been sent long ago. */
function getSeenAt(message: UplinkMessage): number {
  return message.isRetained === true ? getReadingTime(getTimes(message)).time : Math.floor(message.receivedAt);
}

/** Whether a text is a valid id: not empty, at most `maxLength` characters, without control characters. */
function isValidId(text: string, maxLength: number): boolean {
  return text !== '' && Array.from(text).length <= maxLength && !FORBIDDEN_IN_ID.test(text);
}

function rejected(reason: string): StepOutcome {
  return { stop: { outcome: 'rejected', reason } };
}
