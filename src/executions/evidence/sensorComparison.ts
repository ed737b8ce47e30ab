import { isLorawan } from '../../connections';
import { jsonEqual } from '../../kernel/canonicalJson';
import type { JsonValue } from '../../kernel/jsonValue';
import { typedValue } from '../../sensorTemplates';
import type { Execution, ExpectedValue } from '../execution';

const SECOND = 1000;

/** What a sensor showed, and when. */
export interface Reading {
  readonly sensorId: string;
  /** The path of the uplink that the value came by. */
  readonly sourcePath: string;
  /** Of the value type of the sensor's template. */
  readonly value: JsonValue;
  /** When the device or its gateway says that it was, on its own clock; undefined: it said nothing. Unix milliseconds. */
  readonly ownTime: number | undefined;
  /** Whose clock that is; undefined: it said nothing, or no delivery is ever told on that clock. */
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

/** What is known of a delivery that samples are held against. */
export type DeliveryFacts = Pick<Execution, 'deliveredAt' | 'deliveredArrival' | 'deliveredFCnt' | 'peerDeliveredAt' | 'peerDeliveredBy' | 'times'>;

/**
 * Whether a sample was taken after the command was delivered: the server received it after the evidence of that, and nothing shows that it
 * is older. A time of its own must be later than the delivery on the same clock; one on a clock that no delivery is told on must not be
 * before it. Of a LoRaWAN device of class A the frame counter must be above that of the uplink that opened the receive window. What was
 * buffered never counts, nor what cannot be compared.
 */
export function isAfterDelivery(x: DeliveryFacts, sample: SampleTimes): boolean {
  const { ownTime, clock, receivedAt, isBuffered } = sample;
  if (isBuffered || x.deliveredArrival === undefined || receivedAt <= x.deliveredArrival || isOfEarlierFrame(x, sample)) return false;
  if (ownTime === undefined) return true;
  if (clock === undefined) return isSinceSecondOf(ownTime, x.deliveredAt);
  return x.peerDeliveredAt !== undefined && x.peerDeliveredBy === clock && ownTime > x.peerDeliveredAt;
}

/** Whether a sample came with the uplink that opened the receive window of class A, or with an earlier one. */
function isOfEarlierFrame({ times, deliveredFCnt }: DeliveryFacts, { fCnt }: SampleTimes): boolean {
  return times.classA && fCnt !== undefined && deliveredFCnt !== undefined && fCnt <= deliveredFCnt;
}

/**
 * Whether a sample was taken after the command left, though nobody told of its delivery. A time on a gateway's clock proves nothing: nothing
 * says what that clock showed then, and gateways keep uplinks. A network server keeps none, so its time must only not be before.
 */
export function isAfterDispatch(x: Pick<Execution, 'dispatchedAt' | 'kind'>, { ownTime, clock, receivedAt, isBuffered }: SampleTimes): boolean {
  if (isBuffered || x.dispatchedAt === undefined || Math.floor(receivedAt) <= x.dispatchedAt) return false;
  return ownTime === undefined || ((clock === undefined || isLorawan(x.kind)) && isSinceSecondOf(ownTime, x.dispatchedAt));
}

/** What is older than the second of a moment on the server's clock has waited somewhere. Many devices tell whole seconds only. */
function isSinceSecondOf(ownTime: number, moment: number | undefined): boolean {
  return moment !== undefined && ownTime >= Math.floor(moment / SECOND) * SECOND;
}

/**
 * Whether a reading takes the place of the one that is stored. On one clock the later sample is the newer one, unless the stored one
 * claims to be of the future, which must not keep all others out; else that which came later. What names no clock shares none.
 */
export function replaces(one: SampleTimes, stored: SampleTimes | undefined): boolean {
  if (!stored) return true;
  const onOneClock = one.ownTime !== undefined && stored.ownTime !== undefined && one.clock !== undefined && one.clock === stored.clock && stored.ownTime <= stored.receivedAt;
  return onOneClock ? one.ownTime >= stored.ownTime : one.receivedAt >= stored.receivedAt;
}
