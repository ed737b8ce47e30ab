import { isLorawan, type TimeSource } from '../../connections';
import { isJsonEqual } from '../../kernel/canonicalJson';
import type { JsonValue } from '../../kernel/jsonValue';
import { convertToType } from '../../sensorTemplates';
import type { Execution, ExpectedValue } from '../execution';

const SECOND = 1000;

/** A sensor value and its times. */
export interface Reading {
  readonly sensorId: string;
  /** The source path of the value in the uplink. */
  readonly sourcePath: string;
  /** Has the value type of the sensor's template. */
  readonly value: JsonValue;
  /**
   * When the device or its gateway sampled it, on the clock of the device or gateway, Unix milliseconds; undefined if
   * not reported.
   */
  readonly deviceTime: number | undefined;
  /** Who reported `deviceTime`; undefined if not known. */
  readonly timeSource?: TimeSource | undefined;
  /**
   * Identifies the clock of `deviceTime`, for example by the id of a gateway. Undefined if not reported, or if no
   * delivery is ever reported on that clock.
   */
  readonly clock: string | undefined;
  /** The arrival time at the server: Unix milliseconds, with a fraction that only defines an order. */
  readonly receivedAt: number;
  /**
   * Whether the uplink may have been sampled an unknown time ago: it waited at a broker while the server was down, or
   * has a time that could not be read. It proves nothing about a command.
   */
  readonly isBuffered?: boolean;
  /** Whether the uplink was a retained message of a broker; then it is also buffered. */
  readonly isRetained?: boolean;
  /** LoRaWAN: the frame counter of its uplink. */
  readonly fCnt?: number | undefined;
  /** LoRaWAN: the device address of the session that `fCnt` counts in. */
  readonly devAddr?: string | undefined;
}

/** The sample time and the arrival time. */
export type SampleTimes = Pick<
  Reading,
  'deviceTime' | 'timeSource' | 'clock' | 'receivedAt' | 'isBuffered' | 'isRetained' | 'fCnt' | 'devAddr'
>;

/**
 * Compares a value with the expected one by sensor type: a number within max(1e-9, 1e-6 × |expected|), an integer
 * exactly, a boolean in any of its variants (for example 1 and true), a string exactly, JSON independent of key order.
 * A value of another type never matches.
 */
export function matchesExpected(expected: ExpectedValue, reported: JsonValue): boolean {
  const { valueType } = expected;
  const wanted = convertToType(valueType, expected.value);
  const value = convertToType(valueType, reported);
  if (wanted === undefined || value === undefined) return false;
  if (valueType === 'number') {
    const tolerance = Math.max(1e-9, 1e-6 * Math.abs(Number(wanted)));
    return Math.abs(Number(wanted) - Number(value)) <= tolerance;
  }
  return isJsonEqual(wanted, value);
}

/** Whether two executions expect different values of the same sensor. */
export function expectsOtherValue(newer: readonly ExpectedValue[], older: readonly ExpectedValue[]): boolean {
  return older.some((expected) =>
    newer.some((other) => other.sensorId === expected.sensorId && !matchesExpected(expected, other.value)),
  );
}

/** The fields of an execution that show when its command was delivered. */
type DeliveryFields = Pick<
  Execution,
  | 'deliveredAt'
  | 'deliveredArrival'
  | 'deliveredFCnt'
  | 'deliveredDevAddr'
  | 'peerDeliveredAt'
  | 'peerDeliveredBy'
  | 'policy'
>;

/**
 * Whether a sample was taken after the delivery: the server received it after the evidence of delivery, and nothing
 * shows that it is older. Its device time must be later than the delivery on the same clock; on a clock that reports no
 * deliveries, the device time must not be earlier than the delivery. For LoRaWAN class A, the frame counter must be
 * above that of the uplink that opened the receive window. Buffered samples and samples that cannot be compared never
 * count.
 */
export function isAfterDelivery(execution: DeliveryFields, sample: SampleTimes): boolean {
  const { deviceTime, clock, receivedAt, isBuffered } = sample;
  const arrivedLater = execution.deliveredArrival !== undefined && receivedAt > execution.deliveredArrival;
  if (isBuffered || !arrivedLater || isOfEarlierFrame(execution, sample)) return false;
  if (deviceTime === undefined) return true;
  if (clock === undefined) return isInOrAfterSecond(deviceTime, execution.deliveredAt);
  return execution.peerDeliveredBy === clock && isLater(deviceTime, execution.peerDeliveredAt);
}

/**
 * Whether a sample came with the uplink that opened the class A receive window, or with an earlier one of the same
 * session, so that it cannot show an effect. A new session and a reset counter start at 0. Within a session without
 * reset, a network server accepts no smaller counter, so a sample that it received later is not of an earlier frame.
 */
function isOfEarlierFrame(execution: DeliveryFields, { fCnt, devAddr, deviceTime, clock }: SampleTimes): boolean {
  const { policy, deliveredFCnt, deliveredDevAddr } = execution;
  if (!policy.classA || fCnt === undefined || deliveredFCnt === undefined || fCnt > deliveredFCnt) return false;
  if (isOtherSession(devAddr, deliveredDevAddr)) return false;
  if (fCnt === deliveredFCnt) return true;
  // With a smaller counter, only a later time on the same clock shows that the counter was reset.
  const isProvablyLater = clock === execution.peerDeliveredBy && isLater(deviceTime, execution.peerDeliveredAt);
  return !isProvablyLater;
}

function isOtherSession(left: string | undefined, right: string | undefined): boolean {
  return left !== undefined && right !== undefined && left !== right;
}

function isLater(time: number | undefined, moment: number | undefined): boolean {
  return time !== undefined && moment !== undefined && time > moment;
}

/**
 * Whether a sample was taken after the command was sent, although no delivery was reported. A time on a gateway's clock
 * proves nothing: the state of that clock at dispatch is unknown, and gateways buffer uplinks. A network server does
 * not buffer, so its time must only not be earlier.
 */
export function isNewerThanDispatch(execution: Pick<Execution, 'dispatchedAt' | 'kind'>, sample: SampleTimes): boolean {
  const { deviceTime, receivedAt, isBuffered } = sample;
  if (isBuffered || execution.dispatchedAt === undefined || Math.floor(receivedAt) <= execution.dispatchedAt)
    return false;
  if (deviceTime === undefined) return true;
  return !isOnGatewayClock(execution, sample) && isInOrAfterSecond(deviceTime, execution.dispatchedAt);
}

/**
 * Whether a sample may show the effect of this command instead of that of an older one: this command was sent before
 * the sample arrived, and nothing shows that the sample is older. A class A device receives a command only after its
 * next uplink, so only samples after the delivery count.
 */
export function mayShowEffect(
  execution: DeliveryFields & Pick<Execution, 'dispatchedAt' | 'kind'>,
  sample: SampleTimes,
): boolean {
  const { dispatchedAt, policy } = execution;
  if (policy.classA) return isAfterDelivery(execution, sample);
  const { deviceTime, receivedAt } = sample;
  if (dispatchedAt === undefined || Math.floor(receivedAt) < dispatchedAt) return false;
  return deviceTime === undefined || isOnGatewayClock(execution, sample) || isInOrAfterSecond(deviceTime, dispatchedAt);
}

/** Whether the device time is on the clock of a gateway, whose state at other moments is unknown. */
function isOnGatewayClock({ kind }: Pick<Execution, 'kind'>, { clock }: SampleTimes): boolean {
  return clock !== undefined && !isLorawan(kind);
}

/**
 * Whether a time is not before the start of the second that contains a moment on the server's clock. Many devices
 * report whole seconds only, so an earlier fraction of that second does not count as older.
 */
function isInOrAfterSecond(deviceTime: number, moment: number | undefined): boolean {
  return moment !== undefined && deviceTime >= Math.floor(moment / SECOND) * SECOND;
}

/**
 * Whether a reading replaces the stored one, because it is newer. If both have a device time on the same clock, the
 * later device time is newer, unless the stored one was in the future when it arrived: it must not block all later
 * readings. In all other cases the later arrival is newer.
 */
export function replaces(reading: SampleTimes, stored: SampleTimes | undefined): boolean {
  if (!stored) return true;
  const canCompareDeviceTimes =
    reading.deviceTime !== undefined &&
    stored.deviceTime !== undefined &&
    reading.clock !== undefined &&
    reading.clock === stored.clock &&
    stored.deviceTime <= stored.receivedAt;
  return canCompareDeviceTimes ? reading.deviceTime >= stored.deviceTime : reading.receivedAt >= stored.receivedAt;
}
