import { isLorawan } from '../../connections';
import { type ExecutionEvidence, type ExecutionState, isFinal } from '../execution';
import { type EventKind, type ExecutionEvent, MOST_EVENTS } from './executionEvent';
import { type MachineExecution, hasNativeAck } from './executionTimes';
import { type Change, armAck, armVerification, askAgain, backOff, disarmAck, disarmDelivery, disarmQuery, freeSlot, judgeLater, markDelivered, markUnknown, only, send, shortenDelivery, storeError, takeUp, waitsTooLong, withdraw } from './transitionChanges';

/** One row of the table of docs/executions.md. The first row that fits an event is the one that acts. */
export interface Row {
  /** Its number in docs/executions.md; one number may need several rows. */
  readonly id: string;
  readonly from: readonly ExecutionState[];
  readonly on: EventKind;
  readonly when: (x: MachineExecution, event: ExecutionEvent, now: number) => boolean;
  readonly to: ExecutionState;
  readonly changes: readonly Change[];
  /** The code that a final state is stored with. */
  readonly detail: (x: MachineExecution, event: ExecutionEvent) => string;
  readonly evidence: ExecutionEvidence | undefined;
  /** A `settle` follows in the same transaction. */
  readonly settles: boolean;
}

type Guard = (x: MachineExecution) => boolean;
type EventOf<Kind extends EventKind> = Extract<ExecutionEvent, { readonly kind: Kind }>;

/** What a row may say beside from, event and to. */
interface RowExtras<Kind extends EventKind> {
  readonly when?: (x: MachineExecution, event: EventOf<Kind>, now: number) => boolean;
  readonly changes?: readonly Change[];
  readonly detail?: string | ((x: MachineExecution, event: EventOf<Kind>) => string);
  readonly evidence?: ExecutionEvidence;
  readonly settles?: boolean;
}

function row<Kind extends EventKind>(id: string, from: ExecutionState | readonly ExecutionState[], on: Kind, to: ExecutionState, extras: RowExtras<Kind> = {}): Row {
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

const A: Guard = hasNativeAck;
const NU: Guard = (x) => x.strategy === 'wait_next_uplink';
const Q: Guard = (x) => x.strategy === 'query_after_ack';
const L4: Guard = (x) => x.expected.length > 0 && x.strategy !== 'no_verification';
const gateway: Guard = (x) => x.kind === 'gateway';
const ackAwaited: Guard = (x) => A(x) && x.tAck !== undefined;
/** An answer is still awaited, or nothing has opened the window yet: `no_answer` told again changes nothing. */
const answerOpen: Guard = (x) => x.state !== 'delivered' || x.tAck !== undefined || x.tConv === undefined;
const firstUplinkDecides: Guard = (x) => NU(x) && L4(x) && x.convergenceTimeout === undefined;
const setAside: Guard = (x) => x.detail === 'l4_mismatch';
const not = (guard: Guard): Guard => (x) => !guard(x);
const all = (...guards: readonly Guard[]): Guard => (x) => guards.every((guard) => guard(x));
const any = (...guards: readonly Guard[]): Guard => (x) => guards.some((guard) => guard(x));
const timer = (name: EventOf<'timer'>['timer'], guard: Guard = () => true) => (x: MachineExecution, event: EventOf<'timer'>) => event.timer === name && guard(x);

const code = (_x: MachineExecution, event: { readonly code?: string }) => event.code ?? '';
const verificationEnd = (x: MachineExecution) => (L4(x) ? 'l4_timeout' : 'query_timeout');
/** L2 and L3 are behind it: only the effect is open. */
const toVerification: readonly Change[] = [markDelivered, disarmDelivery, disarmAck, armVerification, freeSlot];

/** What proves that an attempt was received after all. */
const RECEIVED = ['transport_ok', 'ack', 'refused', 'negative', 'no_answer', 'unreachable'] as const;

const TABLE: readonly Row[] = [
  row('T5', 'enqueued', 'dispatch', 'in_transit', { when: (x, _event, now) => (x.tDelivery ?? 0) > now && (x.notBefore ?? 0) <= now && !x.holdsSlot, changes: [send] }),
  row('T6', 'enqueued', 'timer', 'transport_unreachable', { when: timer('delivery'), detail: (x) => x.detail }),
  row('T7', 'enqueued', 'removed', 'transport_unreachable', { detail: 'target_removed' }),
  row('T7', 'enqueued', 'cancelled', 'transport_unreachable', { detail: (_x, event) => event.reason ?? 'cancelled' }),
  row('T8', 'in_transit', 'transport_ok', 'delivered', {
    changes: [markDelivered, only(any(A, all(NU, not(L4))), armAck), disarmDelivery, only(all(not(A), any(L4, Q)), armVerification), only(not(A), freeSlot)],
    settles: true,
  }),
  row('T9', 'delivered', 'settle', 'unconfirmed', { when: (x) => !A(x) && x.strategy === 'no_verification' }),
  row('T10', 'in_transit', 'known_undelivered', 'enqueued', { changes: [backOff, freeSlot] }),
  row('T11', 'in_transit', 'refused', 'transport_rejected', { detail: code }),
  row('T11', 'delivered', 'refused', 'transport_rejected', { when: gateway, detail: code }),
  row('T12', 'in_transit', 'unreachable', 'transport_unreachable', { detail: code }),
  row('T12', 'delivered', 'unreachable', 'transport_unreachable', { when: gateway, detail: code }),
  row('T13', 'in_transit', 'network_retry', 'in_transit', { when: (x, event) => event.code !== x.detail && x.eventCount < MOST_EVENTS, changes: [storeError] }),
  row('T14', 'in_transit', 'link_lost', 'in_transit', { when: (x, _event, now) => x.detail === '' || waitsTooLong(x, now), changes: [markUnknown, shortenDelivery] }),
  row('T16', 'in_transit', 'timer', 'unconfirmed', { when: timer('delivery'), detail: (x) => x.detail || 'delivery_unknown', changes: [withdraw] }),
  row('T17', ['in_transit', 'delivered'], 'ack', 'accepted_no_l4', { when: all(A, not(L4), not(Q)), changes: [markDelivered], evidence: 'native_ack' }),
  row('T18', ['in_transit', 'delivered'], 'ack', 'accepted', { when: all(A, any(L4, Q)), changes: toVerification, evidence: 'native_ack', settles: true }),
  row('T19', ['in_transit', 'delivered', 'accepted'], 'negative', 'protocol_rejected', { detail: code }),
  row('T20', ['in_transit', 'delivered'], 'no_answer', 'unconfirmed', { when: not(L4), detail: (x, event) => code(x, event) || 'no_answer' }),
  row('T21', ['in_transit', 'delivered'], 'no_answer', 'delivered', { when: all(L4, answerOpen), changes: toVerification, settles: true }),
  row('T22', 'delivered', 'uplink', 'accepted_no_l4', { when: all(not(A), NU, not(L4)), evidence: 'implicit_uplink' }),
  row('T23', ['delivered', 'accepted'], 'sensors_matched', 'converged', { when: L4, evidence: 'sensor', changes: [withdraw] }),
  row('T24', 'in_transit', 'sensors_matched', 'converged', { when: (x, event) => L4(x) && event.changed, evidence: 'sensor', changes: [withdraw] }),
  ...([...RECEIVED, 'known_undelivered'] as const).map((on) => row('T24', 'converged', on, 'converged', { when: (x) => x.holdsSlot, changes: [freeSlot] })),
  row('T24', 'converged', 'timer', 'converged', { when: timer('delivery', (x) => x.holdsSlot), changes: [freeSlot] }),
  row('T25', 'delivered', 'uplink', 'unconfirmed', { when: all(firstUplinkDecides, not(ackAwaited)), detail: 'l4_mismatch', changes: [withdraw] }),
  row('T25', 'delivered', 'uplink', 'delivered', { when: all(firstUplinkDecides, ackAwaited, not(setAside)), changes: [judgeLater] }),
  row('T25', 'delivered', 'settle', 'unconfirmed', { when: all(firstUplinkDecides, setAside, not(ackAwaited)), detail: 'l4_mismatch', changes: [withdraw] }),
  row('T26', 'accepted', 'uplink', 'accepted_no_l4', { when: firstUplinkDecides, detail: 'l4_mismatch' }),
  row('T26', 'accepted', 'settle', 'accepted_no_l4', { when: all(firstUplinkDecides, setAside), detail: 'l4_mismatch' }),
  row('T27', 'accepted', 'query_answered', 'accepted_no_l4', { when: all(Q, not(L4)), evidence: 'query' }),
  row('T28', 'delivered', 'query_answered', 'accepted_no_l4', { when: all(Q, not(L4), not(A)), evidence: 'query' }),
  row('T29', 'delivered', 'timer', 'unconfirmed', { when: timer('ack', all(not(L4), any(A, NU))), detail: 'ack_timeout', changes: [withdraw] }),
  row('T30', 'delivered', 'timer', 'delivered', { when: timer('ack', all(L4, A)), changes: [disarmAck, armVerification, freeSlot], settles: true }),
  row('T31', 'accepted', 'timer', 'accepted_no_l4', { when: timer('conv', any(L4, Q)), detail: verificationEnd }),
  row('T32', 'delivered', 'timer', 'unconfirmed', { when: timer('conv', any(L4, all(Q, not(A)))), detail: verificationEnd, changes: [withdraw] }),
  row('T33', 'delivered', 'superseded', 'unconfirmed', { when: L4, detail: 'superseded', changes: [withdraw] }),
  row('T34', 'accepted', 'superseded', 'accepted_no_l4', { when: L4, detail: 'superseded' }),
  row('T35', ['in_transit', 'delivered'], 'removed', 'unconfirmed', { detail: 'target_removed', changes: [withdraw] }),
  row('T36', 'accepted', 'removed', 'accepted_no_l4', { detail: 'target_removed' }),
  row('T37', ['enqueued', 'in_transit', 'delivered'], 'restored', 'unconfirmed', { detail: 'restored', changes: [withdraw] }),
  row('T37', 'accepted', 'restored', 'accepted_no_l4', { detail: 'restored' }),
  ...(['delivered', 'accepted'] as const).flatMap((state) => [
    row('T38', state, 'timer', state, { when: timer('query', Q), changes: [askAgain, disarmQuery] }),
    row('T39', state, 'query_answered', state, { when: all(Q, L4), changes: [disarmQuery] }),
    row('T40', state, 'query_failed', state, { when: Q }),
  ]),
];

/**
 * T15: back in the queue by T10, but the other side reports on an earlier attempt: its word at T10 is outdone by its own later evidence.
 * It acts as if the execution had stayed in transit, so that it is not sent a second time.
 */
function afterAll(of: Row): Row {
  return { ...of, id: 'T15', from: ['enqueued'], when: (x, event, now) => x.attempts > 0 && of.when(x, event, now), changes: [takeUp, ...of.changes] };
}

/** Every transition after the submission (T5 to T40). What fits no row is ignored; on a final state it is kept as late evidence. */
export const TRANSITIONS: readonly Row[] = [...TABLE, ...TABLE.filter((row) => row.from.includes('in_transit') && (RECEIVED as readonly EventKind[]).includes(row.on)).map(afterAll)];

/** Whether an end leaves the slot taken: ChirpStack has one item per device, until its txack or its expiry. */
export function slotOutlives(x: MachineExecution, to: ExecutionState): boolean {
  return x.state === 'in_transit' && isFinal(to) && to === 'converged' && isLorawan(x.kind);
}
