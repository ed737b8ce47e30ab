import type { ExecutionState } from '../../src/executions/execution';
import type { ExecutionEvent, Timer } from '../../src/executions/machine/executionEvent';
import { type MachineExecution, getNextDeadline, getWaitEnd } from '../../src/executions/machine/executionTimes';
import { TRANSITIONS } from '../../src/executions/machine/transitionTable';
import { type Profile, T0, apply, enqueued, inState } from './machineExecution';

/** One row of executions.md, section 3: the execution and the event, and the expected result. */
interface Case {
  readonly name: string;
  readonly x: MachineExecution;
  readonly event: ExecutionEvent;
  /** Milliseconds after T0. */
  readonly at?: number;
  /** The rows that apply, and the state after them. No rows: the event is ignored. */
  readonly rows: readonly string[];
  readonly to?: ExecutionState;
  readonly after?: Partial<MachineExecution>;
  readonly effects?: readonly string[];
}

const dispatch: ExecutionEvent = { kind: 'dispatch', peerId: 'gw', bootId: 'b1' };
const timer = (name: Timer): ExecutionEvent => ({ kind: 'timer', timer: name });
const refused: ExecutionEvent = { kind: 'refused', code: 'too_big', message: 'too big' };
const busy = { detail: 'gw', detailMessage: 'busy' };
const noAnswer: ExecutionEvent = { kind: 'no_answer', code: '', message: '' };
const P = (kind: Profile['kind'], strategy: Profile['strategy'], expects = false): Profile => ({
  kind,
  strategy,
  expects,
});
const gatewayL4 = P('gateway', 'wait_next_uplink', true);
const gatewayQ = P('gateway', 'query_after_ack');
const mqttL4 = P('mqtt', 'wait_next_uplink', true);
const mqttQ = P('mqtt', 'query_after_ack');
const mqttNU = P('mqtt', 'wait_next_uplink');
const retried = (profile: Partial<Profile> = {}): MachineExecution =>
  apply(inState('in_transit', profile), { kind: 'known_undelivered' }, T0)?.x ?? enqueued();
const open = { holdsSlot: false, tDelivery: undefined, tAck: undefined };
const over = { ...open, tConv: undefined, tQuery: undefined };
const gatewayQL4 = P('gateway', 'query_after_ack', true);

const CASES: readonly Case[] = [
  {
    name: 'T5 sends the head of the queue',
    x: enqueued(),
    event: dispatch,
    rows: ['T5'],
    to: 'in_transit',
    after: { holdsSlot: true, attempts: 1, sentTo: 'gw', sentBoot: 'b1', dispatchedAt: T0, tDelivery: T0 + 60_000 },
  },
  { name: 'T5 only before t_delivery', x: enqueued(), event: dispatch, at: 60_000, rows: [] },
  { name: 'T5 not before the backoff is over', x: enqueued({}, { notBefore: T0 + 1 }), event: dispatch, rows: [] },
  {
    name: 'T6',
    x: enqueued(),
    event: timer('delivery'),
    at: 60_000,
    rows: ['T6'],
    to: 'transport_unreachable',
    after: { finishedAt: T0 + 60_000, ...over },
  },
  { name: 'T6 not early', x: enqueued(), event: timer('delivery'), at: 59_999, rows: [] },
  {
    name: 'T7 removed',
    x: enqueued(),
    event: { kind: 'removed', reason: 'device_deleted' },
    rows: ['T7'],
    to: 'transport_unreachable',
    after: { detail: 'device_removed' },
  },
  {
    name: 'T7 cancelled',
    x: enqueued(),
    event: { kind: 'cancelled' },
    rows: ['T7'],
    to: 'transport_unreachable',
    after: { detail: 'cancelled' },
  },
  {
    name: 'T7 cancelled by the server',
    x: enqueued(),
    event: { kind: 'cancelled', reason: 'parent_ended' },
    rows: ['T7'],
    to: 'transport_unreachable',
    after: { detail: 'parent_ended' },
  },
  { name: 'cancelled only while enqueued', x: inState('in_transit'), event: { kind: 'cancelled' }, rows: [] },
  {
    name: 'T8 awaits the answer of a gateway',
    x: inState('in_transit'),
    event: { kind: 'transport_ok' },
    at: 1000,
    rows: ['T8'],
    to: 'delivered',
    after: { deliveredAt: T0 + 1000, tDelivery: undefined, tAck: T0 + 90_000, tConv: undefined, holdsSlot: true },
  },
  {
    name: 'T8 without A awaits an uplink',
    x: inState('in_transit', mqttNU),
    event: { kind: 'transport_ok' },
    rows: ['T8'],
    to: 'delivered',
    after: { tAck: T0 + 180_000, tConv: undefined, holdsSlot: false },
  },
  {
    name: 'T8 without A opens the window',
    x: inState('in_transit', mqttL4),
    event: { kind: 'transport_ok' },
    rows: ['T8'],
    to: 'delivered',
    after: { ...open, tConv: T0 + 300_000 },
  },
  {
    name: 'T8 without A sends a query',
    x: inState('in_transit', mqttQ),
    event: { kind: 'transport_ok' },
    rows: ['T8'],
    to: 'delivered',
    after: { tConv: T0 + 300_000, tAck: undefined, tQuery: T0 + 150_000, queriesSent: 1 },
    effects: ['send_query'],
  },
  {
    name: 'T8 stores the time of the report and the time of the other side',
    x: inState('in_transit'),
    event: { kind: 'transport_ok', reportReceivedAt: T0 + 3, peerTime: T0 - 3_600_000 },
    at: 8,
    rows: ['T8'],
    to: 'delivered',
    after: { deliveredAt: T0 + 3, peerDeliveredAt: T0 - 3_600_000, tAck: T0 + 90_000 },
  },
  {
    name: 'T8 stores the order within a millisecond',
    x: inState('in_transit'),
    event: { kind: 'transport_ok', reportReceivedAt: T0 + 3.25, peerTime: 7, peerClock: 'gw-1' },
    at: 8,
    rows: ['T8'],
    to: 'delivered',
    after: { deliveredAt: T0 + 3, deliveredArrival: T0 + 3.25, peerDeliveredAt: 7, peerDeliveredBy: 'gw-1' },
  },
  {
    name: 'T18 stores the time of the other side if the receipt had none',
    x: inState('delivered', P('gateway', 'wait_next_uplink', true)),
    event: { kind: 'ack', peerTime: 9, peerClock: 'gw-1' },
    at: 8,
    rows: ['T18'],
    to: 'accepted',
    after: { peerDeliveredAt: 9, peerDeliveredBy: 'gw-1' },
  },
  {
    name: 'T8 stores no time before the dispatch or in the future',
    x: inState('in_transit'),
    event: { kind: 'transport_ok', reportReceivedAt: T0 - 9 },
    at: 8,
    rows: ['T8'],
    to: 'delivered',
    after: { deliveredAt: T0 },
  },
  {
    name: 'T8 with a window of the connection',
    x: inState('in_transit', mqttL4, { policy: { ...enqueued().policy, convergenceMs: 7000 } }),
    event: { kind: 'transport_ok' },
    rows: ['T8'],
    to: 'delivered',
    after: { tConv: T0 + 7000 },
  },
  {
    name: 'T8 with a time of the connection for the next uplink',
    x: inState('in_transit', mqttNU, { policy: { ...enqueued().policy, implicitAckMs: 9000 } }),
    event: { kind: 'transport_ok' },
    rows: ['T8'],
    to: 'delivered',
    after: { tAck: T0 + 9000 },
  },
  {
    name: 'T9 in the same step as T8',
    x: inState('in_transit', P('mqtt', 'no_verification')),
    event: { kind: 'transport_ok' },
    rows: ['T8', 'T9'],
    to: 'unconfirmed',
    after: { deliveredAt: T0, ...over },
  },
  {
    name: 'T10 first backoff',
    x: inState('in_transit'),
    event: { kind: 'known_undelivered' },
    rows: ['T10'],
    to: 'enqueued',
    after: { notBefore: T0 + 1000, holdsSlot: false, sentTo: undefined, tDelivery: T0 + 60_000, attempts: 1 },
  },
  ...[2000, 5000, 15_000, 60_000, 60_000].map((wait, at): Case => ({
    name: `T10 backoff ${at + 2}`,
    x: inState('in_transit', {}, { attempts: at + 1 }),
    event: { kind: 'known_undelivered' },
    rows: ['T10'],
    to: 'enqueued',
    after: { notBefore: T0 + wait },
  })),
  {
    name: 'T11',
    x: inState('in_transit', mqttL4),
    event: refused,
    rows: ['T11'],
    to: 'transport_rejected',
    after: { detail: 'too_big', detailMessage: 'too big', ...over },
  },
  { name: 'T11 gateway delivered', x: inState('delivered'), event: refused, rows: ['T11'], to: 'transport_rejected' },
  {
    name: 'T11 applies to delivered commands of gateways only',
    x: inState('delivered', mqttL4),
    event: refused,
    rows: [],
  },
  {
    name: 'T12',
    x: inState('in_transit'),
    event: { kind: 'unreachable', code: 'expired', message: '' },
    rows: ['T12'],
    to: 'transport_unreachable',
    after: { detail: 'expired' },
  },
  {
    name: 'T12 gateway delivered',
    x: inState('delivered', gatewayL4),
    event: { kind: 'unreachable', code: 'c', message: 'm' },
    rows: ['T12'],
    to: 'transport_unreachable',
  },
  {
    name: 'T13',
    x: inState('in_transit', P('chirpstack', 'no_verification')),
    event: { kind: 'network_retry', code: 'gw', message: 'busy' },
    rows: ['T13'],
    to: 'in_transit',
    after: { detail: 'gw', detailMessage: 'busy' },
  },
  {
    name: 'T13 repeated',
    x: { ...inState('in_transit', P('chirpstack', 'no_verification')), ...busy },
    event: { kind: 'network_retry', code: 'gw', message: 'busy' },
    rows: [],
  },
  {
    name: 'T13 repeated with another message',
    x: { ...inState('in_transit', P('chirpstack', 'no_verification')), ...busy },
    event: { kind: 'network_retry', code: 'gw', message: 'too late' },
    rows: ['T13'],
    to: 'in_transit',
    after: { detail: 'gw', detailMessage: 'too late (before: gw: busy)' },
  },
  {
    name: 'T13 expired',
    x: { ...inState('in_transit', P('chirpstack', 'no_verification')), ...busy },
    event: { kind: 'network_retry', code: 'expired', message: 'gone' },
    rows: ['T13'],
    to: 'in_transit',
    after: { detail: 'expired', detailMessage: 'gone (before: gw: busy)' },
  },
  {
    name: 'T13 expired, then repeated',
    x: {
      ...inState('in_transit', P('chirpstack', 'no_verification')),
      detail: 'expired',
      detailMessage: 'gone (before: gw: busy)',
    },
    event: { kind: 'network_retry', code: 'expired', message: 'gone' },
    rows: [],
  },
  {
    name: 'T13 repeated too often',
    x: inState('in_transit', P('chirpstack', 'no_verification'), { eventCount: 200 }),
    event: { kind: 'network_retry', code: 'gw', message: 'busy' },
    rows: [],
  },
  {
    name: 'T14 gateway',
    x: inState('in_transit'),
    event: { kind: 'link_lost' },
    rows: ['T14'],
    to: 'in_transit',
    after: { detail: 'delivery_unconfirmed', tDelivery: T0 + 60_000, holdsSlot: true },
  },
  {
    name: 'T14 mqtt waits no longer than t_ack',
    x: inState('in_transit', mqttL4),
    event: { kind: 'link_lost' },
    at: 10_000,
    rows: ['T14'],
    to: 'in_transit',
    after: { tDelivery: T0 + 40_000 },
  },
  { name: 'T14 once', x: inState('in_transit', {}, {}), event: { kind: 'link_lost' }, rows: ['T14'], after: {} },
  {
    name: 'T15 received after all',
    x: retried(),
    event: { kind: 'transport_ok' },
    at: 500,
    rows: ['T15'],
    to: 'delivered',
    after: { deliveredAt: T0 + 500, notBefore: undefined, holdsSlot: true, tDelivery: undefined, tAck: T0 + 90_000 },
  },
  {
    name: 'T15 received, then settled',
    x: retried(P('mqtt', 'no_verification')),
    event: { kind: 'transport_ok' },
    rows: ['T15', 'T9'],
    to: 'unconfirmed',
    after: over,
  },
  {
    name: 'T15 done after all',
    x: retried(),
    event: { kind: 'ack' },
    rows: ['T15'],
    to: 'accepted_no_l4',
    after: { evidence: 'native_ack', notBefore: undefined, ...over },
  },
  {
    name: 'T15 done, its effect is open',
    x: retried(gatewayL4),
    event: { kind: 'ack' },
    rows: ['T15'],
    to: 'accepted',
    after: { ...open, notBefore: undefined, tConv: T0 + 300_000 },
  },
  {
    name: 'T15 not done',
    x: retried(),
    event: refused,
    rows: ['T15'],
    to: 'transport_rejected',
    after: { detail: 'too_big', ...over },
  },
  {
    name: 'T15 refused by the device',
    x: retried(),
    event: { kind: 'negative', code: 'E7', message: '' },
    rows: ['T15'],
    to: 'protocol_rejected',
    after: { detail: 'E7' },
  },
  {
    name: 'T15 no answer',
    x: retried(gatewayL4),
    event: noAnswer,
    rows: ['T15'],
    to: 'delivered',
    after: { ...open, notBefore: undefined },
  },
  {
    name: 'T15 unreachable',
    x: retried(),
    event: { kind: 'unreachable', code: 'expired', message: '' },
    rows: ['T15'],
    to: 'transport_unreachable',
  },
  { name: 'T15 only after an attempt', x: enqueued(), event: { kind: 'ack' }, rows: [] },
  { name: 'T15 ignores a repeated failure', x: retried(), event: { kind: 'known_undelivered' }, rows: [] },
  {
    name: 'T29 withdraws what T15 confirmed',
    x: apply(retried(), { kind: 'transport_ok' }, T0)?.x ?? enqueued(),
    event: timer('ack'),
    at: 90_000,
    rows: ['T29'],
    to: 'unconfirmed',
    effects: ['cancel_at_gateway'],
  },
  {
    name: 'T16',
    x: inState('in_transit'),
    event: timer('delivery'),
    at: 60_000,
    rows: ['T16'],
    to: 'unconfirmed',
    after: { detail: 'delivery_unconfirmed', ...over },
    effects: ['cancel_at_gateway'],
  },
  {
    name: 'T16 with the last error',
    x: { ...inState('in_transit'), detail: 'gw_busy' },
    event: timer('delivery'),
    at: 60_000,
    rows: ['T16'],
    to: 'unconfirmed',
    after: { detail: 'gw_busy' },
  },
  {
    name: 'T16 chirpstack keeps the slot until its item expires',
    x: inState('in_transit', P('chirpstack', 'no_verification')),
    event: timer('delivery'),
    at: 59_999,
    rows: [],
  },
  {
    name: 'T16 chirpstack frees the slot when its item expires',
    x: inState('in_transit', P('chirpstack', 'no_verification')),
    event: timer('delivery'),
    at: 60_000,
    rows: ['T16'],
    to: 'in_transit',
    after: { holdsSlot: false },
  },
  {
    name: 'T16 chirpstack waits one more uplink',
    x: { ...inState('in_transit', P('chirpstack', 'no_verification')), holdsSlot: false },
    event: timer('delivery'),
    at: 179_999,
    rows: [],
  },
  {
    name: 'T16 chirpstack',
    x: { ...inState('in_transit', P('chirpstack', 'no_verification')), holdsSlot: false },
    event: timer('delivery'),
    at: 180_000,
    rows: ['T16'],
    to: 'unconfirmed',
  },
  {
    name: 'T17 from in_transit',
    x: inState('in_transit'),
    event: { kind: 'ack' },
    at: 5,
    rows: ['T17'],
    to: 'accepted_no_l4',
    after: { deliveredAt: T0 + 5, evidence: 'native_ack', ...over },
  },
  {
    name: 'T17 from delivered',
    x: inState('delivered', P('chirpstack_confirmed', 'wait_next_uplink')),
    event: { kind: 'ack' },
    at: 5,
    rows: ['T17'],
    to: 'accepted_no_l4',
    after: { deliveredAt: T0 },
  },
  { name: 'T17 needs A', x: inState('delivered', mqttNU), event: { kind: 'ack' }, rows: [] },
  {
    name: 'T18 with L4',
    x: inState('delivered', gatewayL4),
    event: { kind: 'ack' },
    rows: ['T18'],
    to: 'accepted',
    after: { ...open, tConv: T0 + 300_000, evidence: 'native_ack' },
  },
  {
    name: 'T18 with Q',
    x: inState('in_transit', gatewayQ),
    event: { kind: 'ack' },
    rows: ['T18'],
    to: 'accepted',
    effects: ['send_query'],
  },
  {
    name: 'T18 after T30 sends no second query',
    x: { ...inState('delivered', P('gateway', 'query_after_ack', true)), tAck: undefined, tConv: T0 + 9 },
    event: { kind: 'ack' },
    rows: ['T18'],
    to: 'accepted',
    after: { tConv: T0 + 9 },
    effects: [],
  },
  ...(['in_transit', 'delivered', 'accepted'] as const).map((state): Case => ({
    name: `T19 from ${state}`,
    x: inState(state, gatewayL4),
    event: { kind: 'negative', code: 'E7', message: 'jammed' },
    rows: ['T19'],
    to: 'protocol_rejected',
    after: { detail: 'E7', detailMessage: 'jammed', ...over },
  })),
  {
    name: 'T20',
    x: inState('delivered'),
    event: noAnswer,
    rows: ['T20'],
    to: 'unconfirmed',
    after: { detail: 'no_answer' },
    effects: [],
  },
  {
    name: 'T20 from in_transit',
    x: inState('in_transit', gatewayQ),
    event: noAnswer,
    rows: ['T20'],
    to: 'unconfirmed',
  },
  {
    name: 'T41',
    x: inState('delivered', gatewayL4),
    event: { kind: 'answer_not_understood', message: 'm' },
    rows: ['T41'],
    to: 'delivered',
    after: { detail: 'answer_not_understood', detailMessage: 'm' },
  },
  {
    name: 'T21',
    x: inState('in_transit', gatewayL4),
    event: noAnswer,
    at: 7,
    rows: ['T21'],
    to: 'delivered',
    after: { ...open, deliveredAt: T0 + 7, tConv: T0 + 300_007 },
  },
  {
    name: 'T21 sends a query unless one was sent',
    x: inState('delivered', P('gateway', 'query_after_ack', true)),
    event: noAnswer,
    rows: ['T21'],
    to: 'delivered',
    effects: ['send_query'],
  },
  {
    name: 'T21 repeated',
    x: apply(inState('delivered', gatewayL4), noAnswer, T0)?.x ?? enqueued(),
    event: noAnswer,
    rows: [],
  },
  {
    name: 'T21 after the time for an answer',
    x: { ...inState('delivered', gatewayL4), tAck: undefined, tConv: T0 + 9 },
    event: noAnswer,
    rows: [],
  },
  {
    name: 'T22',
    x: inState('delivered', mqttNU),
    event: { kind: 'uplink' },
    rows: ['T22'],
    to: 'accepted_no_l4',
    after: { evidence: 'implicit_uplink', ...over },
  },
  {
    name: 'T22 needs no A',
    x: inState('delivered', P('gateway', 'wait_next_uplink')),
    event: { kind: 'uplink' },
    rows: [],
  },
  ...(['delivered', 'accepted'] as const).map((state): Case => ({
    name: `T23 from ${state}`,
    x: inState(state, gatewayL4),
    event: { kind: 'sensors_matched', changed: false },
    rows: ['T23'],
    to: 'converged',
    after: { evidence: 'sensor', ...over },
  })),
  {
    name: 'T24',
    x: inState('in_transit', mqttL4),
    event: { kind: 'sensors_matched', changed: true },
    rows: ['T24'],
    to: 'converged',
    after: over,
    effects: ['cancel_at_gateway'],
  },
  {
    name: 'T24 needs a change',
    x: inState('in_transit', mqttL4),
    event: { kind: 'sensors_matched', changed: false },
    rows: [],
  },
  {
    name: 'T24 chirpstack keeps the slot',
    x: inState('in_transit', P('chirpstack', 'wait_next_uplink', true)),
    event: { kind: 'sensors_matched', changed: true },
    rows: ['T24'],
    to: 'converged',
    after: { holdsSlot: true, tDelivery: T0 + 60_000, finishedAt: T0 },
  },
  {
    name: 'T25',
    x: inState('delivered', mqttL4),
    event: { kind: 'uplink' },
    rows: ['T25'],
    to: 'unconfirmed',
    after: { detail: 'verification_mismatch', ...over },
  },
  {
    name: 'T25 not with a convergence timeout',
    x: inState('delivered', mqttL4, { convergenceTimeout: 60 }),
    event: { kind: 'uplink' },
    rows: [],
  },
  {
    name: 'T25 is judged later while an ack is awaited',
    x: inState('delivered', gatewayL4),
    event: { kind: 'uplink' },
    rows: ['T25'],
    to: 'delivered',
    after: { detail: 'verification_mismatch', holdsSlot: true },
  },
  {
    name: 'T26',
    x: inState('accepted', gatewayL4),
    event: { kind: 'uplink' },
    rows: ['T26'],
    to: 'accepted_no_l4',
    after: { detail: 'verification_mismatch', ...over },
  },
  {
    name: 'T26 for a deferred uplink',
    x: { ...inState('delivered', gatewayL4), detail: 'verification_mismatch' },
    event: { kind: 'ack' },
    rows: ['T18', 'T26'],
    to: 'accepted_no_l4',
    after: { detail: 'verification_mismatch' },
  },
  {
    name: 'T25 for a deferred uplink at a nack',
    x: { ...inState('delivered', gatewayL4), detail: 'verification_mismatch' },
    event: noAnswer,
    rows: ['T21', 'T25'],
    to: 'unconfirmed',
  },
  {
    name: 'T25 for a deferred uplink at t_ack',
    x: { ...inState('delivered', gatewayL4), detail: 'verification_mismatch' },
    event: timer('ack'),
    at: 90_000,
    rows: ['T30', 'T25'],
    to: 'unconfirmed',
  },
  {
    name: 'T27',
    x: inState('accepted', gatewayQ),
    event: { kind: 'query_answered' },
    rows: ['T27'],
    to: 'accepted_no_l4',
    after: { evidence: 'query' },
  },
  {
    name: 'T28',
    x: inState('delivered', mqttQ),
    event: { kind: 'query_answered' },
    rows: ['T28'],
    to: 'accepted_no_l4',
    after: { evidence: 'query' },
  },
  {
    name: 'T29',
    x: inState('delivered'),
    event: timer('ack'),
    at: 90_000,
    rows: ['T29'],
    to: 'unconfirmed',
    after: { detail: 'ack_timeout', ...over },
    effects: ['cancel_at_gateway'],
  },
  {
    name: 'T30',
    x: inState('delivered', gatewayL4),
    event: timer('ack'),
    at: 90_000,
    rows: ['T30'],
    to: 'delivered',
    after: { ...open, tConv: T0 + 390_000 },
  },
  {
    name: 'T31 l4',
    x: inState('accepted', gatewayL4),
    event: timer('conv'),
    at: 300_000,
    rows: ['T31'],
    to: 'accepted_no_l4',
    after: { detail: 'verification_timeout' },
  },
  {
    name: 'T31 query',
    x: inState('accepted', gatewayQ),
    event: timer('conv'),
    at: 300_000,
    rows: ['T31'],
    to: 'accepted_no_l4',
    after: { detail: 'query_timeout' },
  },
  {
    name: 'T32 l4',
    x: inState('delivered', mqttL4),
    event: timer('conv'),
    at: 300_000,
    rows: ['T32'],
    to: 'unconfirmed',
    after: { detail: 'verification_timeout' },
  },
  {
    name: 'T32 query',
    x: inState('delivered', mqttQ),
    event: timer('conv'),
    at: 300_000,
    rows: ['T32'],
    to: 'unconfirmed',
    after: { detail: 'query_timeout' },
  },
  {
    name: 'T33',
    x: inState('delivered', mqttL4),
    event: { kind: 'superseded', byExecutionId: 'e2' },
    rows: ['T33'],
    to: 'unconfirmed',
    after: { detail: 'superseded' },
  },
  {
    name: 'T34',
    x: inState('accepted', gatewayL4),
    event: { kind: 'superseded', byExecutionId: 'e2' },
    rows: ['T34'],
    to: 'accepted_no_l4',
    after: { detail: 'superseded' },
  },
  ...(['in_transit', 'delivered'] as const).map((state): Case => ({
    name: `T35 from ${state}`,
    x: inState(state),
    event: { kind: 'removed', reason: 'unbound' },
    rows: ['T35'],
    to: 'unconfirmed',
    after: { detail: 'device_removed', ...over },
    effects: ['cancel_at_gateway'],
  })),
  {
    name: 'T36',
    x: inState('accepted', gatewayL4),
    event: { kind: 'removed', reason: 'unbound' },
    rows: ['T36'],
    to: 'accepted_no_l4',
    after: { detail: 'device_removed' },
  },
  ...(['enqueued', 'in_transit', 'delivered'] as const).map((state): Case => ({
    name: `T37 from ${state}`,
    x: inState(state),
    event: { kind: 'restored' },
    rows: ['T37'],
    to: 'unconfirmed',
    after: { detail: 'restored', ...over },
  })),
  {
    name: 'T37 from accepted',
    x: inState('accepted', gatewayL4),
    event: { kind: 'restored' },
    rows: ['T37'],
    to: 'accepted_no_l4',
    after: { detail: 'restored' },
  },
  {
    name: 'T38',
    x: inState('accepted', gatewayQ),
    event: timer('query'),
    at: 150_000,
    rows: ['T38'],
    to: 'accepted',
    after: { tQuery: undefined, queriesSent: 2, tConv: T0 + 300_000 },
    effects: ['send_query'],
  },
  {
    name: 'T38 from delivered',
    x: inState('delivered', mqttQ),
    event: timer('query'),
    at: 150_000,
    rows: ['T38'],
    to: 'delivered',
    after: { tQuery: undefined, queriesSent: 2 },
    effects: ['send_query'],
  },
  { name: 'T38 not early', x: inState('accepted', gatewayQ), event: timer('query'), at: 149_999, rows: [] },
  {
    name: 'T38 sends no query once the window is over',
    x: inState('accepted', gatewayQ),
    event: timer('query'),
    at: 300_000,
    rows: ['T38'],
    to: 'accepted',
    after: { tQuery: undefined, queriesSent: 1 },
    effects: [],
  },
  {
    name: 'T39',
    x: inState('accepted', gatewayQL4),
    event: { kind: 'query_answered' },
    rows: ['T39'],
    to: 'accepted',
    after: { tQuery: undefined, tConv: T0 + 300_000, evidence: 'native_ack' },
  },
  {
    name: 'T40',
    x: inState('accepted', gatewayQ),
    event: { kind: 'query_failed', queryExecutionId: 'q', state: 'unconfirmed', detail: 'no_answer' },
    rows: ['T40'],
    to: 'accepted',
    after: { tQuery: T0 + 150_000, detail: '' },
  },
  {
    name: 'T40 only for a query',
    x: inState('accepted', gatewayL4),
    event: { kind: 'query_failed', queryExecutionId: 'q', state: 'unconfirmed', detail: '' },
    rows: [],
  },
];

describe('the table of executions.md', () => {
  it.each(CASES.map((c) => [c.name, c] as const))('%s', (_name, c) => {
    const result = apply(c.x, c.event, T0 + (c.at ?? 0));
    expect(result?.rows ?? []).toEqual(c.rows);
    if (!result) return;
    if (c.to) expect(result.x.state).toBe(c.to);
    expect(result.x).toMatchObject(c.after ?? {});
    if (c.effects) expect(result.effects).toEqual(c.effects);
  });

  it('has a case for each of its rows', () => {
    const tested = new Set(CASES.flatMap((c) => c.rows));
    expect([...new Set(TRANSITIONS.map((row) => row.id))].filter((id) => !tested.has(id))).toEqual([]);
  });

  it('ignores timers without an effect when it computes the end of a wait', () => {
    const queried = inState('accepted', gatewayQ);
    expect([getNextDeadline(queried), getWaitEnd(queried)]).toEqual([T0 + 150_000, T0 + 300_000]);
  });

  it('marks a lost connection once', () => {
    const lost = apply(inState('in_transit'), { kind: 'link_lost' }, T0);
    expect(lost && apply(lost.x, { kind: 'link_lost' }, T0)).toBeUndefined();
  });

  it.each<ExecutionEvent>([
    { kind: 'transport_ok' },
    { kind: 'ack' },
    { kind: 'no_answer', code: 'x', message: '' },
    { kind: 'known_undelivered' },
    { kind: 'timer', timer: 'delivery' },
  ])('frees the slot that T24 kept at $kind', (event) => {
    const converged = apply(
      inState('in_transit', P('chirpstack', 'wait_next_uplink', true)),
      { kind: 'sensors_matched', changed: true },
      T0,
    );
    expect(converged && getNextDeadline(converged.x)).toBe(T0 + 60_000);
    const freed = converged && apply(converged.x, event, T0 + 180_000);
    expect(freed?.x).toMatchObject({ state: 'converged', holdsSlot: false, finishedAt: T0 });
    expect(freed && getNextDeadline(freed.x)).toBeUndefined();
  });

  it('accepts evidence in any order: an ack before the acknowledgement of the transport', () => {
    const acked = apply(inState('in_transit', gatewayL4), { kind: 'ack' }, T0 + 5);
    expect(acked?.x).toMatchObject({ state: 'accepted', deliveredAt: T0 + 5 });
    expect(acked && apply(acked.x, { kind: 'transport_ok' }, T0 + 6)).toBeUndefined();
  });
});
