import { hasNativeAck, isLorawan } from '../../connections';
import { type Execution, isFinal, computeRank } from '../execution';
import { type Timer, TIMERS } from './executionEvent';

const SECOND = 1000;
/** The delay before the second, third, … attempt. Further attempts have the last delay. */
const BACKOFF_MS = [1, 2, 5, 15, 60].map((seconds) => seconds * SECOND);
/** Added to a number of uplink intervals, because uplinks are not exactly periodic. */
const UPLINK_TOLERANCE_MS = 60 * SECOND;
/** The minimum time for the next uplink of a device that does not acknowledge commands itself. */
const MIN_IMPLICIT_ACK_MS = 30 * SECOND;
/** The minimum time for an effect: it may be slow although the device sends uplinks often. */
const MIN_CONVERGENCE_MS = 300 * SECOND;

/** The fields that the transition table and its timers read. */
export type MachineExecution = Pick<
  Execution,
  | 'state'
  | 'kind'
  | 'strategy'
  | 'expected'
  | 'convergenceTimeout'
  | 'policy'
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
  | 'deliveredDevAddr'
  | 'finishedAt'
  | 'eventCount'
>;

/** The fields that the timers read. */
type TimedExecution = Pick<
  MachineExecution,
  'state' | 'kind' | 'policy' | 'holdsSlot' | 'tDelivery' | 'tAck' | 'tConv' | 'tQuery'
>;

/**
 * The deadline for the response of the device, once the command is sent to it; for a device that does not acknowledge,
 * the deadline for its next uplink. Devices that acknowledge have `ackMs`: on LoRaWAN from now on, otherwise after the
 * delivery deadline. Unix milliseconds.
 */
export function getAckDeadline(execution: MachineExecution, now: number): number {
  // Two uplinks, so that one may be lost.
  const twoUplinksMs = 2 * execution.policy.uplinkIntervalMs + UPLINK_TOLERANCE_MS;
  if (!hasNativeAck(execution.kind))
    return now + (execution.policy.implicitAckMs ?? Math.max(MIN_IMPLICIT_ACK_MS, twoUplinksMs));
  return isLorawan(execution.kind)
    ? now + execution.policy.ackMs
    : Math.max(execution.tDelivery ?? now, now) + execution.policy.ackMs;
}

/**
 * The deadline until which the sensors must show the effect: the time limit of the command, otherwise that of the
 * connection, otherwise a number of uplinks of the device. Unix milliseconds.
 */
export function getConvergenceDeadline(execution: MachineExecution, now: number): number {
  if (execution.convergenceTimeout !== undefined) return now + execution.convergenceTimeout * SECOND;
  if (execution.policy.convergenceMs !== undefined) return now + execution.policy.convergenceMs;
  // Two uplinks, so that one may be lost. A query of a class A device takes two uplinks itself: the query is sent in
  // the receive window after the first one, and the second one is the response. It is sent a second time after half the
  // time.
  const uplinks = execution.strategy === 'query_after_ack' && execution.policy.classA ? 4 : 2;
  const uplinksMs = uplinks * execution.policy.uplinkIntervalMs + UPLINK_TOLERANCE_MS;
  return now + Math.max(MIN_CONVERGENCE_MS, uplinksMs);
}

/** When the query is sent a second time: halfway to the deadline for the effect. Unix milliseconds. */
export function getSecondQueryTime(now: number, tConv: number): number {
  return now + Math.floor((tConv - now) / 2);
}

/** The earliest time of the next attempt after a confirmed failure to deliver: the delay grows. Unix milliseconds. */
export function getBackoffEnd(execution: MachineExecution, now: number): number {
  const index = Math.min(Math.max(execution.attempts, 1), BACKOFF_MS.length) - 1;
  return now + (BACKOFF_MS[index] ?? 0);
}

/**
 * When a timer expires, Unix milliseconds; undefined if it is not running in this state. The timers are `delivery`,
 * `ack` (the response of the device), `conv` (the effect that the sensors must show) and `query` (the second query).
 */
export function getTimerEnd(execution: TimedExecution, timer: Timer): number | undefined {
  if (timer === 'delivery') return getDeliveryTimerEnd(execution);
  if (isFinal(execution.state)) return undefined;
  if (timer === 'ack') return execution.state === 'delivered' ? execution.tAck : undefined;
  if (execution.state !== 'delivered' && execution.state !== 'accepted') return undefined;
  return timer === 'conv' ? execution.tConv : execution.tQuery;
}

/** The earliest running timer, Unix milliseconds; undefined if none is running. */
export function getNextDeadline(execution: TimedExecution): number | undefined {
  return findEarliest(execution, TIMERS)?.at;
}

/**
 * The earliest timer that finishes the current wait, so not that of the second query. Unix milliseconds; undefined if
 * none is running.
 */
export function getWaitEnd(execution: TimedExecution): number | undefined {
  // In transit, the delivery timer may first only free the slot for the next command, which does not finish the wait.
  return execution.state === 'in_transit'
    ? getDeliveryEnd(execution)
    : findEarliest(execution, ['delivery', 'ack', 'conv'])?.at;
}

/** The earliest expired timer; undefined if there is none. */
export function findExpiredTimer(execution: TimedExecution, now: number): Timer | undefined {
  const first = findEarliest(execution, TIMERS);
  return first && first.at <= now ? first.timer : undefined;
}

/** Returns the earliest of these timers; undefined if none is running. */
function findEarliest(execution: TimedExecution, timers: readonly Timer[]): { timer: Timer; at: number } | undefined {
  const running = timers.flatMap((timer) => {
    const at = getTimerEnd(execution, timer);
    return at === undefined ? [] : [{ timer, at }];
  });
  return running.toSorted((left, right) => left.at - right.at)[0];
}

/**
 * Returns when the delivery timer expires; undefined once the command is delivered, unless the network server may still
 * have it in its queue.
 */
function getDeliveryTimerEnd(execution: TimedExecution): number | undefined {
  if (mayBeQueuedAtNetwork(execution)) return execution.tDelivery;
  const isUndelivered = computeRank(execution.state) < computeRank('delivered');
  return isUndelivered ? getDeliveryEnd(execution) : undefined;
}

/**
 * Returns the end of the delivery. On LoRaWAN, it is one uplink interval later for a sent command: ChirpStack reports
 * that a downlink expired only when it computes the next downlink, which is at the next uplink of the device.
 */
function getDeliveryEnd(execution: TimedExecution): number | undefined {
  if (execution.tDelivery === undefined || execution.state === 'enqueued' || !isLorawan(execution.kind))
    return execution.tDelivery;
  return execution.tDelivery + execution.policy.uplinkIntervalMs + UPLINK_TOLERANCE_MS;
}

/**
 * Whether the network server may still have the command in the queue of the device, so that no other command is sent.
 * Until the delivery deadline at the latest: then the network server discards the command.
 */
export function mayBeQueuedAtNetwork(execution: Pick<TimedExecution, 'state' | 'kind' | 'holdsSlot'>): boolean {
  return isLorawan(execution.kind) && execution.holdsSlot && execution.state !== 'enqueued';
}
