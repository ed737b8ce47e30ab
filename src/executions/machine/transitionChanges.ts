import type { ExecutionProgress } from '../execution';
import type { ExecutionEvent, Told } from './executionEvent';
import { type MachineExecution, ackDeadline, backoffUntil, convergenceDeadline, hasNativeAck, secondQueryAt } from './executionTimes';

/** What a change asks for: `send_query` in the same transaction; once it is on disk `withdraw`, and `take_back` for what has not left the server. */
export type Effect = 'send_query' | 'withdraw' | 'take_back';

/** A transition in the making: the changes so far. */
export interface Draft {
  progress: Partial<ExecutionProgress>;
  readonly effects: Effect[];
}

/** One change of a row: reads the execution as it was, writes into the draft. */
export type Change = (x: MachineExecution, draft: Draft, event: ExecutionEvent, now: number) => void;

/** A change that is made only where the guard holds. */
export function only(guard: (x: MachineExecution) => boolean, change: Change): Change {
  return (x, draft, event, now) => {
    if (guard(x)) change(x, draft, event, now);
  };
}

function set(draft: Draft, progress: Partial<ExecutionProgress>): void {
  draft.progress = { ...draft.progress, ...progress };
}

/** It goes out: the attempt, to whom, and the slot. */
export const send: Change = (x, draft, event, now) => {
  if (event.kind !== 'dispatch') return;
  set(draft, { attempts: x.attempts + 1, dispatchedAt: now, sentTo: event.peerId, sentBoot: event.bootId, holdsSlot: true, notBefore: undefined, detail: '', detailMessage: '' });
};

/** Out of the queue without being sent: an earlier attempt was received. Whoever stores it leaves the slot to one that has it already. */
export const takeUp: Change = (_x, draft) => set(draft, { holdsSlot: true, notBefore: undefined });

/** The first sign of delivery ends what was said about the transport. The first time that is told of it, or after it, is kept. */
export const markDelivered: Change = (x, draft, event, now) => {
  const told: Told = event.kind === 'transport_ok' || event.kind === 'ack' || event.kind === 'no_answer' ? event : {};
  keepTold(x, draft, told);
  if (x.deliveredAt !== undefined) return;
  // Without a stamp it may have come last of all in this millisecond.
  const { toldAt = now + 1 } = told;
  // What was told of it waited its turn, but never since before it was sent.
  const sentAt = x.dispatchedAt ?? 0;
  set(draft, { deliveredAt: Math.max(Math.min(Math.floor(toldAt), now), sentAt), deliveredArrival: Math.max(toldAt, sentAt), detail: '', detailMessage: '' });
};

function keepTold(x: MachineExecution, draft: Draft, { peerTime, peerClock, fCnt }: Told): void {
  if (x.peerDeliveredAt === undefined && peerTime !== undefined) set(draft, { peerDeliveredAt: peerTime, peerDeliveredBy: peerClock });
  if (x.deliveredFCnt === undefined && fCnt !== undefined) set(draft, { deliveredFCnt: fCnt });
}

export const disarmDelivery: Change = (_x, draft) => set(draft, { tDelivery: undefined });

export const disarmAck: Change = (_x, draft) => set(draft, { tAck: undefined });

export const armAck: Change = (x, draft, _event, now) => set(draft, { tAck: ackDeadline(x, now) });

/** Opens the window for the effect and asks for it; never twice. */
export const armVerification: Change = (x, draft, _event, now) => {
  if (x.tConv !== undefined) return;
  const tConv = convergenceDeadline(x, now);
  set(draft, { tConv });
  if (x.strategy !== 'query_after_ack') return;
  set(draft, { tQuery: secondQueryAt(now, tConv) });
  ask(x, draft);
};

/** Asks a second time, unless the window is over too: a server that was down finds both timers ended. */
export const askAgain: Change = (x, draft, _event, now) => {
  if (x.tConv !== undefined && x.tConv > now) ask(x, draft);
};

export const disarmQuery: Change = (_x, draft) => set(draft, { tQuery: undefined });

function ask(x: MachineExecution, draft: Draft): void {
  set(draft, { queriesSent: x.queriesSent + 1 });
  draft.effects.push('send_query');
}

export const freeSlot: Change = (_x, draft) => set(draft, { holdsSlot: false });

/** Back to its place in the queue, a little later. */
export const backOff: Change = (x, draft, event, now) => {
  if (event.kind !== 'known_undelivered') return;
  set(draft, { notBefore: backoffUntil(x, now), sentTo: undefined, sentBoot: undefined, detail: event.code ?? '', detailMessage: event.message ?? '' });
};

/** Keeps the last error of the network server; it becomes the detail if nothing better comes. */
export const storeError: Change = (_x, draft, event) => {
  if (event.kind === 'network_retry') set(draft, { detail: event.code, detailMessage: event.message });
};

/** Nobody can say any more whether it went out. */
export const markUnknown: Change = (x, draft) => {
  if (x.detail === '') set(draft, { detail: 'delivery_unknown' });
};

/** Whether the wait for a broker's acknowledgement, which cannot come on a link that is gone, is longer than need be. */
export function waitsTooLong(x: MachineExecution, now: number): boolean {
  return (x.kind === 'mqtt' || x.kind === 'mqtt_answer') && x.tDelivery !== undefined && x.tDelivery > now + x.times.ackMs;
}

/** Ends that wait earlier. */
export const shortenDelivery: Change = (x, draft, _event, now) => {
  if (waitsTooLong(x, now)) set(draft, { tDelivery: now + x.times.ackMs });
};

/** An uplink that came while an answer is awaited is judged when that wait ends. */
export const judgeLater: Change = (_x, draft) => set(draft, { detail: 'l4_mismatch' });

/** The other side may still hold it: it is told to drop it. */
export const withdraw: Change = (x, draft) => {
  if (x.attempts > 0 && (x.state !== 'delivered' || hasNativeAck(x))) draft.effects.push('withdraw');
};
