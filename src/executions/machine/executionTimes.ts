import { type ConnectorKind, isLorawan } from '../../connections';
import { type Execution, isFinal, rankOf } from '../execution';
import { type Timer, TIMERS } from './executionEvent';

const SECOND = 1000;
const BACKOFF = [1, 2, 5, 15, 60].map((seconds) => seconds * SECOND);

/** What the table and its timers look at: what is frozen, and how far it came. */
export type MachineExecution = Pick<
  Execution,
  | 'state'
  | 'kind'
  | 'strategy'
  | 'expected'
  | 'convergenceTimeout'
  | 'times'
  | 'detail'
  | 'detailMessage'
  | 'evidence'
  | 'attempts'
  | 'holdsSlot'
  | 'notBefore'
  | 'sentTo'
  | 'sentBoot'
  | 'tDelivery'
  | 'tAck'
  | 'tConv'
  | 'tQuery'
  | 'queriesSent'
  | 'dispatchedAt'
  | 'deliveredAt'
  | 'deliveredArrival'
  | 'peerDeliveredAt'
  | 'peerDeliveredBy'
  | 'deliveredFCnt'
  | 'finishedAt'
  | 'eventCount'
>;

/** What the timers alone look at. */
export type TimedExecution = Pick<MachineExecution, 'state' | 'kind' | 'times' | 'holdsSlot' | 'tDelivery' | 'tAck' | 'tConv' | 'tQuery'>;

/** A: whether the device itself answers on this kind of connection. */
export function hasNativeAck(x: { readonly kind: ConnectorKind | undefined }): boolean {
  return x.kind === 'gateway' || x.kind === 'mqtt_answer' || x.kind === 'chirpstack_confirmed';
}

/** Until when the device has to answer, once the delivery is known. Unix milliseconds. */
export function ackDeadline(x: MachineExecution, now: number): number {
  const twoUplinks = 2 * x.times.uplinkIntervalMs + 60 * SECOND;
  if (!hasNativeAck(x)) return now + (x.times.implicitAckMs ?? Math.max(30 * SECOND, twoUplinks));
  return isLorawan(x.kind) ? now + x.times.ackMs : Math.max(x.tDelivery ?? now, now) + x.times.ackMs;
}

/** Until when the effect has to show. Unix milliseconds. */
export function convergenceDeadline(x: MachineExecution, now: number): number {
  if (x.convergenceTimeout !== undefined) return now + x.convergenceTimeout * SECOND;
  if (x.times.convergenceMs !== undefined) return now + x.times.convergenceMs;
  const uplinks = x.strategy === 'query_after_ack' && x.times.classA ? 4 : 2;
  return now + Math.max(300 * SECOND, uplinks * x.times.uplinkIntervalMs + 60 * SECOND);
}

/** When the query is asked a second time: at half of what is left for the effect to show. Unix milliseconds. */
export function secondQueryAt(now: number, tConv: number): number {
  return now + Math.floor((tConv - now) / 2);
}

/** From when it may be sent again after a proven failure to deliver. Unix milliseconds. */
export function backoffUntil(x: MachineExecution, now: number): number {
  const step = Math.min(Math.max(x.attempts, 1), BACKOFF.length) - 1;
  return now + (BACKOFF[step] ?? 0);
}

/** When a timer ends; undefined: it is not running in this state. Unix milliseconds. */
export function timerEnd(x: TimedExecution, timer: Timer): number | undefined {
  if (timer === 'delivery') return rankOf(x.state) < 2 || keepsSlotAfterEnd(x) ? deliveryEnd(x) : undefined;
  if (isFinal(x.state)) return undefined;
  if (timer === 'ack') return x.state === 'delivered' ? x.tAck : undefined;
  if (x.state !== 'delivered' && x.state !== 'accepted') return undefined;
  return timer === 'conv' ? x.tConv : x.tQuery;
}

/** The earliest timer that is running; undefined: none is. Unix milliseconds. */
export function nextDeadline(x: TimedExecution): number | undefined {
  return earliest(x, TIMERS)?.at;
}

/** The earliest timer that ends what is being waited for, so not that of the second query; undefined: none is running. Unix milliseconds. */
export function waitEnd(x: TimedExecution): number | undefined {
  return earliest(x, ['delivery', 'ack', 'conv'])?.at;
}

/** The earliest timer that has ended; undefined: none has. */
export function dueTimer(x: TimedExecution, now: number): Timer | undefined {
  const first = earliest(x, TIMERS);
  return first && first.at <= now ? first.timer : undefined;
}

function earliest(x: TimedExecution, timers: readonly Timer[]): { timer: Timer; at: number } | undefined {
  const running = timers.flatMap((timer) => {
    const at = timerEnd(x, timer);
    return at === undefined ? [] : [{ timer, at }];
  });
  return running.toSorted((a, b) => a.at - b.at)[0];
}

// ChirpStack reports an expiry only when it next computes a downlink, which is at the device's next uplink.
function deliveryEnd(x: TimedExecution): number | undefined {
  if (x.tDelivery === undefined || x.state === 'enqueued' || !isLorawan(x.kind)) return x.tDelivery;
  return x.tDelivery + x.times.uplinkIntervalMs + 60 * SECOND;
}

function keepsSlotAfterEnd(x: TimedExecution): boolean {
  return isFinal(x.state) && x.holdsSlot;
}
