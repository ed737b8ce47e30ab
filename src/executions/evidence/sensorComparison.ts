import { jsonEqual } from '../../kernel/canonicalJson';
import type { JsonValue } from '../../kernel/jsonValue';
import { typedValue } from '../../sensorTemplates';
import type { Execution, ExpectedValue } from '../execution';

/** What a sensor showed, and when. */
export interface Reading {
  readonly sensorId: string;
  /** The path of the uplink that the value came by. */
  readonly sourcePath: string;
  /** Of the value type of the sensor's template. */
  readonly value: JsonValue;
  /** When the device or its gateway says that it was, on its own clock; undefined: it said nothing. Unix milliseconds. */
  readonly ownTime: number | undefined;
  /** Whose clock that is; undefined where it said nothing. */
  readonly clock: string | undefined;
  /** The stamp of its arrival at the server: Unix milliseconds, with a fraction that only orders. */
  readonly receivedAt: number;
  /** Its uplink waited at a broker while the server was away, nobody knows how long. */
  readonly isBuffered?: boolean;
  /** LoRaWAN: the frame counter of its uplink. */
  readonly fCnt?: number | undefined;
}

/** When something was sampled and when it came. */
export type SampleTimes = Pick<Reading, 'ownTime' | 'clock' | 'receivedAt' | 'isBuffered' | 'fCnt'>;

/**
 * Whether a value is the expected one, by the type of its sensor: a number within max(1e-9, 1e-6 x |expected|), an integer exactly,
 * a boolean in any of its spellings, a text exactly, JSON whatever the order of its keys. What is not of the type equals nothing.
 */
export function showsExpected(expected: ExpectedValue, shown: JsonValue): boolean {
  const { valueType } = expected;
  const [wanted, value] = [typedValue(valueType, expected.value), typedValue(valueType, shown)];
  if (wanted === undefined || value === undefined) return false;
  if (valueType === 'number') return Math.abs(Number(wanted) - Number(value)) <= Math.max(1e-9, 1e-6 * Math.abs(Number(wanted)));
  return jsonEqual(wanted, value);
}

/**
 * Whether a sample was taken after the command was delivered: the server received it after the evidence of that, and where it has a time
 * of its own, that is later than the delivery on the same clock. What was buffered never counts, nor what cannot be compared.
 */
export function isAfterDelivery(x: Pick<Execution, 'deliveredArrival' | 'peerDeliveredAt' | 'peerDeliveredBy'>, { ownTime, clock, receivedAt }: SampleTimes): boolean {
  if (x.deliveredArrival === undefined || receivedAt <= x.deliveredArrival) return false;
  if (ownTime === undefined) return true;
  return x.peerDeliveredAt !== undefined && x.peerDeliveredBy === clock && ownTime > x.peerDeliveredAt;
}

/** Whether a sample was taken after the command left, though nobody told of its delivery. One with a time of its own proves nothing: nothing says what that clock showed then. */
export function isAfterDispatch(x: Pick<Execution, 'dispatchedAt'>, { ownTime, receivedAt }: SampleTimes): boolean {
  return x.dispatchedAt !== undefined && Math.floor(receivedAt) > x.dispatchedAt && ownTime === undefined;
}

/**
 * Whether a reading takes the place of the one that is stored. On one clock the later sample is the newer one, unless the stored one
 * claims to be of the future, which must not keep all others out; else that which came later.
 */
export function replaces(one: SampleTimes, stored: SampleTimes | undefined): boolean {
  if (!stored) return true;
  const onOneClock = one.ownTime !== undefined && stored.ownTime !== undefined && one.clock === stored.clock && stored.ownTime <= stored.receivedAt;
  return onOneClock ? one.ownTime >= stored.ownTime : one.receivedAt >= stored.receivedAt;
}
