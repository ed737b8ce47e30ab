import { jsonEqual } from '../kernel/canonicalJson';
import type { JsonValue } from '../kernel/jsonValue';
import { typedValue } from '../sensorTemplates';
import type { Execution, ExpectedValue } from './execution';

/** What a sensor showed, and when. */
export interface Reading {
  readonly sensorId: string;
  /** Of the value type of the sensor's template. */
  readonly value: JsonValue;
  /** When the device or its gateway says that it was, on its own clock; undefined: it said nothing. Unix milliseconds. */
  readonly ownTime: number | undefined;
  /** When the server received it, Unix milliseconds. */
  readonly receivedAt: number;
}

/** When something was sampled and when it came. */
export type SampleTimes = Pick<Reading, 'ownTime' | 'receivedAt'>;

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
 * Whether a sample was taken after the command was delivered: the server received it after the evidence of that, and where both have a
 * time of the other side's clock, that is later too. So a sample that was buffered meanwhile does not count.
 */
export function isAfterDelivery(x: Pick<Execution, 'deliveredAt' | 'peerDeliveredAt'>, { ownTime, receivedAt }: SampleTimes): boolean {
  if (x.deliveredAt === undefined || receivedAt < x.deliveredAt) return false;
  return ownTime === undefined || x.peerDeliveredAt === undefined || ownTime > x.peerDeliveredAt;
}

/** Whether a sample was taken after the command left, though nobody told of its delivery. One with a time of its own proves nothing: nothing says what that clock showed then. */
export function isAfterDispatch(x: Pick<Execution, 'dispatchedAt'>, { ownTime, receivedAt }: SampleTimes): boolean {
  return x.dispatchedAt !== undefined && receivedAt > x.dispatchedAt && ownTime === undefined;
}

/**
 * Whether a reading takes the place of the one that is stored. On one clock the later sample is the newer one, unless the stored one
 * claims to be of the future, which must not keep all others out; else that which came later.
 */
export function replaces(one: SampleTimes, stored: SampleTimes | undefined): boolean {
  if (!stored) return true;
  const onOneClock = one.ownTime !== undefined && stored.ownTime !== undefined && stored.ownTime <= stored.receivedAt;
  return onOneClock ? one.ownTime >= stored.ownTime : one.receivedAt >= stored.receivedAt;
}
