import { randomInt } from 'node:crypto';
import type { Trap } from './trapLogger';

/** Makes a trap; `most`: the line of this number is the last that may spring it. */
type MakeTrap = (most: number) => Trap;

/** Where the server is killed. */
export type Kill =
  /** By itself, at a line of its log. `atStart`: once more, when it has started again. */
  | { readonly by: 'line'; readonly trap: MakeTrap; readonly atStart?: MakeTrap }
  /** From outside, when the gateway has stored a command and before it says so. */
  | { readonly by: 'gateway' }
  /** From outside, at any moment. */
  | { readonly by: 'time' };

/** What the commands have to live with. */
export interface Conditions {
  /** A gateway without a durable store forgets everything at half of the kills, and now and then between them. */
  readonly store: 'durable' | 'volatile';
  /** Seconds that a command may wait for its delivery, and for its answer beyond that. */
  readonly timeout: number;
  /** Between two requests of a caller, in milliseconds. */
  readonly pauseMs: number;
  /** How long a device takes at most, in milliseconds. */
  readonly slowestMs: number;
  /** Deadlines come: the clock is put forward, and the gateway is away for a while. */
  readonly hasty: boolean;
  /** The callers take back half of what they have submitted. */
  readonly cancels?: boolean;
  /** Somebody watches all executions, over every kill. */
  readonly watched?: boolean;
  /** The n-th of something kills; n is at most this. */
  readonly most: number;
}

/** One row of the proof. */
export interface KillPoint {
  readonly name: string;
  readonly kill: Kill;
  readonly conditions: Conditions;
}

const PATIENT: Conditions = { store: 'durable', timeout: 86_400, pauseMs: 3, slowestMs: 15, hasty: false, most: 40 };
// For what not every device does.
const HALF: Conditions = { ...PATIENT, most: 15 };
const HASTY: Conditions = { store: 'durable', timeout: 2, pauseMs: 120, slowestMs: 200, hasty: true, most: 12 };
const FORGETFUL: Conditions = { store: 'volatile', timeout: 5, pauseMs: 60, slowestMs: 30, hasty: true, most: 20 };

const line =
  (event: string, fields: Readonly<Record<string, unknown>> = {}, turns: () => number = () => 0): MakeTrap =>
  (most) => ({ event, fields, nth: 1 + randomInt(most), turns: turns() });
const amid = (): number => 1 + randomInt(8);

const submitted = line('executions.advanced', { cause: 'submitted' });
const intent = line('executions.advanced', { cause: 'dispatch' });
const sent = line('executions.sent');
const leaving = line('executions.sent', {}, amid);
const receipt = line('gateway.command_received');
const storingReceipt = line('gateway.command_received', {}, amid);
const delivered = line('executions.advanced', { cause: 'transport_ok' });
const result = line('gateway.command_result');
const storingResult = line('gateway.command_result', {}, amid);
const settled = line('executions.ended', { cause: 'ack' });
const uplink = line('gateway.uplink');
const storingUplink = line('gateway.uplink', {}, amid);
const uplinkStored = line('gateway.uplink_taken');
const queryStored = line('executions.advanced', { cause: 'ack' });
const queryAnswered = line('executions.ended', { cause: 'query_answered' });
const effectSeen = line('executions.ended', { cause: 'sensors_matched' });
const cancelled = line('executions.ended', { cause: 'cancelled' });
const cancelling = line('executions.ended', { cause: 'cancelled' }, amid);
const expired = line('executions.ended', { cause: 'timer' });

// What a server does first with what an earlier one left.
const unsure = line('executions.advanced', { cause: 'link_lost' });
const requeued = line('executions.advanced', { cause: 'known_undelivered' });
const reconciled = line('executions.reconciled');
const attached = line('gateway.attached', {}, amid);

const oneOf =
  (...traps: readonly MakeTrap[]): MakeTrap =>
  (most) => (traps[randomInt(traps.length)] as MakeTrap)(most);
const any = oneOf(submitted, intent, sent, leaving, receipt, storingReceipt, delivered, result, storingResult, settled, uplink, storingUplink, uplinkStored, queryStored, queryAnswered, effectSeen);
const recovery = oneOf(unsure, requeued, reconciled, attached);

const at = (name: string, trap: MakeTrap, conditions = PATIENT): KillPoint => ({ name, kill: { by: 'line', trap }, conditions });

/** Every place where a crash could lose or double something. */
export const KILL_POINTS: readonly KillPoint[] = [
  at('request stored, not answered', submitted),
  at('intent stored, nothing sent', intent),
  at('handed to the stream', sent),
  at('leaving', leaving),
  { name: 'the gateway has it and has not said so', kill: { by: 'gateway' }, conditions: PATIENT },
  at('command_received came in', receipt),
  at('command_received being stored', storingReceipt),
  at('command_received stored', delivered),
  at('command_result came in', result),
  at('command_result being stored', storingResult),
  at('command_result stored, no ack sent', settled),
  at('uplink came in', uplink),
  at('uplink being stored', storingUplink),
  at('uplink stored, no ack sent', uplinkStored),
  at('query stored, not sent', queryStored, HALF),
  at('query answered, stored', queryAnswered, HALF),
  at('effect seen, stored', effectSeen, HALF),
  { name: 'sending, and again while it recovers', kill: { by: 'line', trap: oneOf(intent, sent, leaving), atStart: () => recovery(1) }, conditions: PATIENT },
  { name: 'any moment', kill: { by: 'time' }, conditions: PATIENT },
  at('cancelled, not answered', oneOf(cancelled, cancelling), { ...PATIENT, cancels: true }),
  { name: 'any moment, cancelled and watched', kill: { by: 'time' }, conditions: { ...PATIENT, cancels: true, watched: true } },
  at('any of these, deadlines come', any, HASTY),
  at('deadline judged', expired, HASTY),
  at('any of these, gateway forgets', any, FORGETFUL),
  { name: 'any moment, gateway forgets', kill: { by: 'time' }, conditions: FORGETFUL },
];
