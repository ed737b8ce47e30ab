import { hasNativeAck } from '../../connections';
import { truncateForDisplay } from '../../kernel/truncate';
import type { ExecutionProgress } from '../execution';
import { type ExecutionEvent, type ReportedResult, reportsDelivery } from './executionEvent';
import {
  type MachineExecution,
  getAckDeadline,
  getBackoffEnd,
  getConvergenceDeadline,
  getSecondQueryTime,
} from './executionTimes';

/**
 * The effects of a change: `send_query` in the same transaction; after the commit `cancel_at_gateway`, and
 * `cancel_unsent` for a command that has not left the server.
 */
export type Effect = 'send_query' | 'cancel_at_gateway' | 'cancel_unsent';

/** A transition under construction: the changes so far. */
export interface Draft {
  progress: Partial<ExecutionProgress>;
  readonly effects: Effect[];
}

/** The detail of an execution whose only response said neither success nor rejection. */
export const ANSWER_NOT_UNDERSTOOD = 'answer_not_understood';

/** The maximum length of the combined errors of a network server, in characters. */
const MAX_DETAIL_MESSAGE_LENGTH = 1000;

/**
 * One change of a row. Reads the execution before the event and writes to the draft. To arm a timer is to set its
 * deadline, to disarm it is to clear the deadline.
 */
export type Change = (execution: MachineExecution, draft: Draft, event: ExecutionEvent, now: number) => void;

/** Applies a change only if the guard holds. */
export function applyIf(guard: (execution: MachineExecution) => boolean, change: Change): Change {
  return (execution, draft, event, now) => {
    if (guard(execution)) change(execution, draft, event, now);
  };
}

/** Adds changed fields to the draft. */
function update(draft: Draft, progress: Partial<ExecutionProgress>): void {
  draft.progress = { ...draft.progress, ...progress };
}

/** Records an attempt to send, and its peer. The execution takes the slot: a device receives one command at a time. */
export const recordAttempt: Change = (execution, draft, event, now) => {
  if (event.kind !== 'dispatch') return;
  update(draft, {
    attempts: execution.attempts + 1,
    dispatchedAt: now,
    sentTo: event.peerId,
    sentBoot: event.bootId,
    holdsSlot: true,
    notBefore: undefined,
    detail: '',
    detailMessage: '',
  });
};

/**
 * Removes the execution from the queue without sending it, because an earlier attempt was received. The execution then
 * occupies the slot of its device, unless another execution occupies it when this change is stored.
 */
export const removeFromQueue: Change = (_execution, draft) => update(draft, { holdsSlot: true, notBefore: undefined });

/**
 * Records the first sign of delivery and clears transport details, but not a response that was not understood. Stores
 * the first reported time of the delivery or after it.
 */
export const markDelivered: Change = (execution, draft, event, now) => {
  const report: ReportedResult = reportsDelivery(event) ? event : {};
  storePeerReport(execution, draft, report);
  if (execution.deliveredAt !== undefined) return;
  // A report without an arrival time may be the last one of this millisecond, so it counts as arrived in the next one.
  const { reportReceivedAt = now + 1 } = report;
  // A report may have waited for processing, but it cannot be older than the dispatch.
  const sentAt = execution.dispatchedAt ?? 0;
  update(draft, {
    deliveredAt: Math.max(Math.min(Math.floor(reportReceivedAt), now), sentAt),
    deliveredArrival: Math.max(reportReceivedAt, sentAt),
    ...(execution.detail !== ANSWER_NOT_UNDERSTOOD && { detail: '', detailMessage: '' }),
  });
};

/** Stores the first reported delivery time, and the first reported frame counter. */
function storePeerReport(
  execution: MachineExecution,
  draft: Draft,
  { peerTime, peerClock, fCnt, devAddr }: ReportedResult,
): void {
  if (execution.peerDeliveredAt === undefined && peerTime !== undefined)
    update(draft, { peerDeliveredAt: peerTime, peerDeliveredBy: peerClock });
  if (execution.deliveredFCnt === undefined && fCnt !== undefined)
    update(draft, { deliveredFCnt: fCnt, deliveredDevAddr: devAddr });
}

/** Cancels the delivery deadline. */
export const disarmDelivery: Change = (_execution, draft) => update(draft, { tDelivery: undefined });

/** Cancels the acknowledgement deadline. */
export const disarmAck: Change = (_execution, draft) => update(draft, { tAck: undefined });

/** Sets the acknowledgement deadline. */
export const armAck: Change = (execution, draft, _event, now) =>
  update(draft, { tAck: getAckDeadline(execution, now) });

/** Starts the verification: sets its deadline, and requests the query if there is one; never twice. */
export const armVerification: Change = (execution, draft, _event, now) => {
  if (execution.tConv !== undefined) return;
  const tConv = getConvergenceDeadline(execution, now);
  update(draft, { tConv });
  if (execution.strategy !== 'query_after_ack') return;
  update(draft, { tQuery: getSecondQueryTime(now, tConv) });
  requestQuery(execution, draft);
};

/** Requests the second query, unless its answer would be too late: after downtime both timers may have expired. */
export const sendQueryAgain: Change = (execution, draft, _event, now) => {
  if (execution.tConv !== undefined && execution.tConv > now) requestQuery(execution, draft);
};

/** Cancels the second query. */
export const disarmQuery: Change = (_execution, draft) => update(draft, { tQuery: undefined });

/** Counts one more query (the first or the second), which is created in the transaction of this change. */
function requestQuery(execution: MachineExecution, draft: Draft): void {
  update(draft, { queriesSent: execution.queriesSent + 1 });
  draft.effects.push('send_query');
}

/** Frees the slot of the device, so that its next command can be sent. */
export const freeSlot: Change = (_execution, draft) => update(draft, { holdsSlot: false });

/** Puts the execution back to its place in the queue. It is sent again after a delay. */
export const requeueWithDelay: Change = (execution, draft, event, now) => {
  if (event.kind !== 'known_undelivered') return;
  update(draft, {
    notBefore: getBackoffEnd(execution, now),
    sentTo: undefined,
    sentBoot: undefined,
    detail: event.code ?? '',
    detailMessage: event.message ?? '',
  });
};

/**
 * Stores the last error of the network server as the detail, until another detail replaces it. Earlier errors follow in
 * the message, so that the reason of the LoRaWAN gateway stays readable when the downlink expires.
 */
export const storeNetworkError: Change = (execution, draft, event) => {
  if (event.kind !== 'network_retry') return;
  const earlier = execution.detailMessage === '' ? '' : ` (before: ${execution.detail}: ${execution.detailMessage})`;
  update(draft, {
    detail: event.code,
    detailMessage: truncateForDisplay(event.message + earlier, MAX_DETAIL_MESSAGE_LENGTH),
  });
};

/** Whether an error of the network server is not stored in the execution yet. */
export function isNewNetworkError(
  execution: MachineExecution,
  error: { readonly code: string; readonly message: string },
): boolean {
  return error.code !== execution.detail || !execution.detailMessage.includes(error.message);
}

/** Records that it is unknown whether the command was sent. */
export const markDeliveryUnknown: Change = (execution, draft) => {
  if (execution.detail === '') update(draft, { detail: 'delivery_unconfirmed' });
};

/**
 * Whether the wait for a broker's acknowledgement is too long. On a lost link, the acknowledgement cannot arrive any
 * more.
 */
export function isAckWaitTooLong(execution: MachineExecution, now: number): boolean {
  return (
    (execution.kind === 'mqtt' || execution.kind === 'mqtt_answer') &&
    execution.tDelivery !== undefined &&
    execution.tDelivery > now + execution.policy.ackMs
  );
}

/** Limits the wait for a broker's acknowledgement to the acknowledgement timeout. */
export const shortenDelivery: Change = (execution, draft, _event, now) => {
  if (isAckWaitTooLong(execution, now)) update(draft, { tDelivery: now + execution.policy.ackMs });
};

/** Records that an uplink did not match while a response was awaited. It counts when the wait for the response ends. */
export const deferVerification: Change = (_execution, draft) =>
  update(draft, { detail: 'verification_mismatch', detailMessage: '' });

/** Stores a response that was not understood, while a corrected one may still arrive. */
export const storeUnclearAnswer: Change = (_execution, draft, event) => {
  if (event.kind === 'answer_not_understood')
    update(draft, { detail: ANSWER_NOT_UNDERSTOOD, detailMessage: event.message });
};

/** Clears a response that was not understood, because a corrected one arrived. */
export const clearUnclearAnswer: Change = (execution, draft) => {
  if (execution.detail === ANSWER_NOT_UNDERSTOOD) update(draft, { detail: '', detailMessage: '' });
};

/**
 * Asks the peer to cancel the command if it may still hold it: the command was sent at least once, and was not
 * delivered to a device that does not acknowledge.
 */
export const cancelAtGateway: Change = (execution, draft) => {
  if (execution.attempts > 0 && (execution.state !== 'delivered' || hasNativeAck(execution.kind)))
    draft.effects.push('cancel_at_gateway');
};
