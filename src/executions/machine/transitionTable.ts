import { hasNativeAck, isLorawan } from '../../connections';
import type { ExecutionEvidence, ExecutionState } from '../execution';
import { type EventKind, type ExecutionEvent, MAX_EVENTS } from './executionEvent';
import { type MachineExecution, mayBeQueuedAtNetwork } from './executionTimes';
import {
  ANSWER_NOT_UNDERSTOOD,
  type Change,
  armAck,
  armVerification,
  clearUnclearAnswer,
  sendQueryAgain,
  requeueWithDelay,
  disarmAck,
  disarmDelivery,
  disarmQuery,
  freeSlot,
  isNewNetworkError,
  deferVerification,
  markDelivered,
  markDeliveryUnknown,
  applyIf,
  recordAttempt,
  shortenDelivery,
  storeNetworkError,
  storeUnclearAnswer,
  removeFromQueue,
  isAckWaitTooLong,
  cancelAtGateway,
} from './transitionChanges';

/** One row of the table in docs/executions.md. The first row that matches an event is applied. */
export interface Row {
  /** Its number in docs/executions.md. One number may have several rows. */
  readonly id: string;
  readonly from: readonly ExecutionState[];
  readonly on: EventKind;
  readonly when: (execution: MachineExecution, event: ExecutionEvent, now: number) => boolean;
  readonly to: ExecutionState;
  readonly changes: readonly Change[];
  /** The detail code of the final state. */
  readonly detail: (execution: MachineExecution, event: ExecutionEvent) => string;
  readonly evidence: ExecutionEvidence | undefined;
  /** A `settle` event follows in the same transaction. */
  readonly settles: boolean;
}

type Guard = (execution: MachineExecution) => boolean;
type EventOf<Kind extends EventKind> = Extract<ExecutionEvent, { readonly kind: Kind }>;

/** The optional parts of a row. */
interface RowExtras<Kind extends EventKind> {
  readonly when?: (execution: MachineExecution, event: EventOf<Kind>, now: number) => boolean;
  readonly changes?: readonly Change[];
  readonly detail?: string | ((execution: MachineExecution, event: EventOf<Kind>) => string);
  readonly evidence?: ExecutionEvidence;
  readonly settles?: boolean;
}

/** Creates a row; by default it always applies, changes nothing but the state, and has an empty detail code. */
function row<Kind extends EventKind>(
  id: string,
  from: ExecutionState | readonly ExecutionState[],
  on: Kind,
  to: ExecutionState,
  extras: RowExtras<Kind> = {},
): Row {
  const { detail = '' } = extras;
  return {
    id,
    from: typeof from === 'string' ? [from] : from,
    on,
    to,
    when: (extras.when ?? (() => true)) as Row['when'],
    changes: extras.changes ?? [],
    detail: (typeof detail === 'string' ? () => detail : detail) as Row['detail'],
    evidence: extras.evidence,
    settles: extras.settles ?? false,
  };
}

// The guards of the table. docs/executions.md explains the first four as conditions.
/** Acknowledges: the device itself acknowledges commands. */
const deviceAcknowledges: Guard = ({ kind }) => hasNativeAck(kind);
/** Waits for uplink: the next readable uplink decides. */
const waitsForUplink: Guard = (execution) => execution.strategy === 'wait_next_uplink';
/** Sends query: the device is queried after its acknowledgement. */
const sendsQuery: Guard = (execution) => execution.strategy === 'query_after_ack';
/** Expects sensors: sensor states are expected and verified. */
const expectsSensors: Guard = (execution) => execution.expected.length > 0 && execution.strategy !== 'no_verification';
const isGateway: Guard = (execution) => execution.kind === 'gateway';
const awaitsAck: Guard = (execution) => deviceAcknowledges(execution) && execution.tAck !== undefined;
/** A response is still awaited, or the verification has not started. A repeated `no_answer` changes nothing. */
const awaitsResponse: Guard = (execution) =>
  execution.state !== 'delivered' || execution.tAck !== undefined || execution.tConv === undefined;
/** The first uplink after the delivery decides, because no time limit for the effect is set. */
const firstUplinkDecides: Guard = (execution) =>
  waitsForUplink(execution) && expectsSensors(execution) && execution.convergenceTimeout === undefined;
const hasUnclearAnswer: Guard = (execution) => execution.detail === ANSWER_NOT_UNDERSTOOD;
const hasDeferredMismatch: Guard = (execution) => execution.detail === 'verification_mismatch';
const not =
  (guard: Guard): Guard =>
  (execution) =>
    !guard(execution);
const all =
  (...guards: readonly Guard[]): Guard =>
  (execution) =>
    guards.every((guard) => guard(execution));
const any =
  (...guards: readonly Guard[]): Guard =>
  (execution) =>
    guards.some((guard) => guard(execution));
const timer =
  (name: EventOf<'timer'>['timer'], guard: Guard = () => true) =>
  (execution: MachineExecution, event: EventOf<'timer'>) =>
    event.timer === name && guard(execution);

const getEventCode = (_execution: MachineExecution, event: { readonly code?: string }) => event.code ?? '';
const getVerificationTimeout = (execution: MachineExecution) =>
  expectsSensors(execution) ? 'verification_timeout' : 'query_timeout';
/** The transport (layer 2) and the device (layer 3) are done: from now on only the effect is awaited. */
const START_VERIFICATION: readonly Change[] = [markDelivered, disarmDelivery, disarmAck, armVerification, freeSlot];

/** Events that prove that the peer received an attempt after all. */
const EVENTS_AFTER_RECEIPT = [
  'transport_ok',
  'ack',
  'refused',
  'negative',
  'answer_not_understood',
  'no_answer',
  'unreachable',
] as const;

const BASE_TRANSITIONS: readonly Row[] = [
  row('T5', 'enqueued', 'dispatch', 'in_transit', {
    when: (execution, _event, now) =>
      (execution.tDelivery ?? 0) > now && (execution.notBefore ?? 0) <= now && !execution.holdsSlot,
    changes: [recordAttempt],
  }),
  row('T6', 'enqueued', 'timer', 'transport_unreachable', {
    when: timer('delivery'),
    detail: (execution) => execution.detail,
  }),
  row('T7', 'enqueued', 'removed', 'transport_unreachable', { detail: 'device_removed' }),
  row('T7', 'enqueued', 'cancelled', 'transport_unreachable', {
    detail: (_execution, event) => event.reason ?? 'cancelled',
  }),
  row('T8', 'in_transit', 'transport_ok', 'delivered', {
    changes: [
      markDelivered,
      applyIf(any(deviceAcknowledges, all(waitsForUplink, not(expectsSensors))), armAck),
      disarmDelivery,
      applyIf(all(not(deviceAcknowledges), any(expectsSensors, sendsQuery)), armVerification),
      applyIf(not(deviceAcknowledges), freeSlot),
    ],
    settles: true,
  }),
  row('T9', 'delivered', 'settle', 'unconfirmed', {
    when: (execution) => !deviceAcknowledges(execution) && execution.strategy === 'no_verification',
  }),
  row('T10', 'in_transit', 'known_undelivered', 'enqueued', { changes: [requeueWithDelay, freeSlot] }),
  row('T11', 'in_transit', 'refused', 'transport_rejected', { detail: getEventCode }),
  row('T11', 'delivered', 'refused', 'transport_rejected', { when: isGateway, detail: getEventCode }),
  row('T12', 'in_transit', 'unreachable', 'transport_unreachable', { detail: getEventCode }),
  row('T12', 'delivered', 'unreachable', 'transport_unreachable', { when: isGateway, detail: getEventCode }),
  row('T13', 'in_transit', 'network_retry', 'in_transit', {
    when: (execution, event) => isNewNetworkError(execution, event) && execution.eventCount < MAX_EVENTS,
    changes: [storeNetworkError],
  }),
  row('T14', 'in_transit', 'link_lost', 'in_transit', {
    when: (execution, _event, now) => execution.detail === '' || isAckWaitTooLong(execution, now),
    changes: [markDeliveryUnknown, shortenDelivery],
  }),
  row('T16', 'in_transit', 'timer', 'in_transit', {
    when: timer('delivery', mayBeQueuedAtNetwork),
    changes: [freeSlot],
  }),
  row('T16', 'in_transit', 'timer', 'unconfirmed', {
    when: timer('delivery'),
    detail: (execution) => execution.detail || 'delivery_unconfirmed',
    changes: [cancelAtGateway],
  }),
  row('T17', ['in_transit', 'delivered'], 'ack', 'accepted_no_l4', {
    when: all(deviceAcknowledges, not(expectsSensors), not(sendsQuery)),
    changes: [markDelivered],
    evidence: 'native_ack',
  }),
  row('T18', ['in_transit', 'delivered'], 'ack', 'accepted', {
    when: all(deviceAcknowledges, any(expectsSensors, sendsQuery)),
    changes: [...START_VERIFICATION, clearUnclearAnswer],
    evidence: 'native_ack',
    settles: true,
  }),
  row('T19', ['in_transit', 'delivered', 'accepted'], 'negative', 'protocol_rejected', { detail: getEventCode }),
  row('T20', ['in_transit', 'delivered'], 'no_answer', 'unconfirmed', {
    when: not(expectsSensors),
    detail: (execution, event) => getEventCode(execution, event) || 'no_answer',
  }),
  row('T21', ['in_transit', 'delivered'], 'no_answer', 'delivered', {
    when: all(expectsSensors, awaitsResponse),
    changes: START_VERIFICATION,
    settles: true,
  }),
  // A gateway may send a corrected result until the deadline.
  ...(['in_transit', 'delivered'] as const).map((state) =>
    row('T41', state, 'answer_not_understood', state, {
      when: all(isGateway, not(hasDeferredMismatch), not(hasUnclearAnswer)),
      changes: [storeUnclearAnswer],
    }),
  ),
  row('T20', ['in_transit', 'delivered'], 'answer_not_understood', 'unconfirmed', {
    when: all(not(isGateway), not(expectsSensors)),
    detail: ANSWER_NOT_UNDERSTOOD,
    changes: [markDelivered],
  }),
  row('T21', ['in_transit', 'delivered'], 'answer_not_understood', 'delivered', {
    when: all(not(isGateway), expectsSensors, awaitsResponse),
    changes: START_VERIFICATION,
    settles: true,
  }),
  row('T22', 'delivered', 'uplink', 'accepted_no_l4', {
    when: all(not(deviceAcknowledges), waitsForUplink, not(expectsSensors)),
    evidence: 'implicit_uplink',
  }),
  row('T23', ['delivered', 'accepted'], 'sensors_matched', 'converged', {
    when: expectsSensors,
    evidence: 'sensor',
    changes: [cancelAtGateway],
  }),
  row('T24', 'in_transit', 'sensors_matched', 'converged', {
    when: (execution, event) => expectsSensors(execution) && event.changed,
    evidence: 'sensor',
    changes: [cancelAtGateway],
  }),
  ...([...EVENTS_AFTER_RECEIPT, 'known_undelivered'] as const).map((on) =>
    row('T24', 'converged', on, 'converged', { when: (execution) => execution.holdsSlot, changes: [freeSlot] }),
  ),
  row('T24', 'converged', 'timer', 'converged', {
    when: timer('delivery', (execution) => execution.holdsSlot),
    changes: [freeSlot],
  }),
  row('T25', 'delivered', 'uplink', 'unconfirmed', {
    when: all(firstUplinkDecides, not(awaitsAck)),
    detail: 'verification_mismatch',
    changes: [cancelAtGateway],
  }),
  row('T25', 'delivered', 'uplink', 'delivered', {
    when: all(firstUplinkDecides, awaitsAck, not(hasDeferredMismatch)),
    changes: [deferVerification],
  }),
  row('T25', 'delivered', 'settle', 'unconfirmed', {
    when: all(firstUplinkDecides, hasDeferredMismatch, not(awaitsAck)),
    detail: 'verification_mismatch',
    changes: [cancelAtGateway],
  }),
  row('T26', 'accepted', 'uplink', 'accepted_no_l4', { when: firstUplinkDecides, detail: 'verification_mismatch' }),
  row('T26', 'accepted', 'settle', 'accepted_no_l4', {
    when: all(firstUplinkDecides, hasDeferredMismatch),
    detail: 'verification_mismatch',
  }),
  row('T27', 'accepted', 'query_answered', 'accepted_no_l4', {
    when: all(sendsQuery, not(expectsSensors)),
    evidence: 'query',
  }),
  row('T28', 'delivered', 'query_answered', 'accepted_no_l4', {
    when: all(sendsQuery, not(expectsSensors), not(deviceAcknowledges)),
    evidence: 'query',
  }),
  row('T29', 'delivered', 'timer', 'unconfirmed', {
    when: timer('ack', all(not(expectsSensors), any(deviceAcknowledges, waitsForUplink))),
    detail: (execution) => (hasUnclearAnswer(execution) ? ANSWER_NOT_UNDERSTOOD : 'ack_timeout'),
    changes: [cancelAtGateway],
  }),
  row('T30', 'delivered', 'timer', 'delivered', {
    when: timer('ack', all(expectsSensors, deviceAcknowledges)),
    changes: [disarmAck, armVerification, freeSlot],
    settles: true,
  }),
  row('T31', 'accepted', 'timer', 'accepted_no_l4', {
    when: timer('conv', any(expectsSensors, sendsQuery)),
    detail: getVerificationTimeout,
  }),
  row('T32', 'delivered', 'timer', 'unconfirmed', {
    when: timer('conv', any(expectsSensors, all(sendsQuery, not(deviceAcknowledges)))),
    detail: getVerificationTimeout,
    changes: [cancelAtGateway],
  }),
  row('T33', 'delivered', 'superseded', 'unconfirmed', {
    when: expectsSensors,
    detail: 'superseded',
    changes: [cancelAtGateway],
  }),
  row('T34', 'accepted', 'superseded', 'accepted_no_l4', { when: expectsSensors, detail: 'superseded' }),
  row('T35', ['in_transit', 'delivered'], 'removed', 'unconfirmed', {
    detail: 'device_removed',
    changes: [cancelAtGateway],
  }),
  row('T36', 'accepted', 'removed', 'accepted_no_l4', { detail: 'device_removed' }),
  row('T37', ['enqueued', 'in_transit', 'delivered'], 'restored', 'unconfirmed', {
    detail: 'restored',
    changes: [cancelAtGateway],
  }),
  row('T37', 'accepted', 'restored', 'accepted_no_l4', { detail: 'restored' }),
  ...(['delivered', 'accepted'] as const).flatMap((state) => [
    row('T38', state, 'timer', state, { when: timer('query', sendsQuery), changes: [sendQueryAgain, disarmQuery] }),
    row('T39', state, 'query_answered', state, { when: all(sendsQuery, expectsSensors), changes: [disarmQuery] }),
    row('T40', state, 'query_failed', state, { when: sendsQuery }),
  ]),
];

/**
 * Creates the T15 row for a late report: T10 put the execution back into the queue, because the peer reported that it
 * was not delivered, and now the peer reports that an earlier attempt was received. The later report counts. The row
 * acts as if the execution had stayed in transit, so that it is not sent again.
 */
function createLateReportRow(row: Row): Row {
  return {
    ...row,
    id: 'T15',
    from: ['enqueued'],
    when: (execution, event, now) => execution.attempts > 0 && row.when(execution, event, now),
    changes: [removeFromQueue, ...row.changes],
  };
}

/**
 * Every transition after submission (T5 to T41). An event that matches no row is ignored; on a final state it is logged
 * as late evidence.
 */
export const TRANSITIONS: readonly Row[] = [
  ...BASE_TRANSITIONS,
  ...BASE_TRANSITIONS.filter(
    (row) => row.from.includes('in_transit') && (EVENTS_AFTER_RECEIPT as readonly EventKind[]).includes(row.on),
  ).map(createLateReportRow),
];

/**
 * Whether a final state still occupies the slot of the device, so that no other command is sent: the effect was seen
 * while the command was in transit, and the command is in ChirpStack's queue of the device, which has one item, until
 * ChirpStack reports that it was sent (txack) or that it expired.
 */
export function keepsSlotAfterFinish(execution: MachineExecution, to: ExecutionState): boolean {
  return execution.holdsSlot && execution.state === 'in_transit' && to === 'converged' && isLorawan(execution.kind);
}
