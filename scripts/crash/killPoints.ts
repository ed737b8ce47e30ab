import { randomInt } from 'node:crypto';
import type { Trap } from './trapLogger';

/** Creates a trap that springs at one of the first `max` matching lines. */
type CreateTrap = (max: number) => Trap;

/** How the server is killed. */
export type Kill =
  /** By itself, at a line of its log. `atStart`: once more after the restart. */
  | { readonly by: 'line'; readonly trap: CreateTrap; readonly atStart?: CreateTrap }
  /** By this program, when the gateway has stored a command but not confirmed it. */
  | { readonly by: 'gateway' }
  /** By this program, at a random moment. */
  | { readonly by: 'time' };

/** The conditions of a proof. */
export interface Conditions {
  /** A gateway with a volatile store loses its commands at half of the kills, and sometimes between them. */
  readonly store: 'durable' | 'volatile';
  /** The timeout for the delivery of a command, and for its result after that, in seconds. */
  readonly timeout: number;
  /** The pause between two requests of a caller, in milliseconds. */
  readonly pauseMs: number;
  /** The maximum time a device needs for a command, in milliseconds. */
  readonly maxDeviceMs: number;
  /** Whether deadlines expire: the clock is moved forward, and the gateway is disconnected for a while. */
  readonly hasTimeouts: boolean;
  /** The callers cancel half of their requests. */
  readonly cancels?: boolean;
  /** The callers alternate between two positions: the last accepted request must be the last command of the device. */
  readonly repeats?: boolean;
  /** A client watches all executions across the kills. */
  readonly watched?: boolean;
  /** The n-th occurrence kills the server; n is random, at most this. */
  readonly max: number;
}

/** One row of the proof. */
export interface KillPoint {
  readonly name: string;
  readonly kill: Kill;
  readonly conditions: Conditions;
}

const PATIENT: Conditions = {
  store: 'durable',
  timeout: 86_400,
  pauseMs: 3,
  maxDeviceMs: 15,
  hasTimeouts: false,
  max: 40,
};
// For events that only some of the devices cause.
const HALF: Conditions = { ...PATIENT, max: 15 };
const SHORT_TIMEOUTS: Conditions = {
  store: 'durable',
  timeout: 2,
  pauseMs: 120,
  maxDeviceMs: 200,
  hasTimeouts: true,
  max: 12,
};
const FORGETFUL: Conditions = {
  store: 'volatile',
  timeout: 5,
  pauseMs: 60,
  maxDeviceMs: 30,
  hasTimeouts: true,
  max: 20,
};

const trapAtLine =
  (event: string, fields: Readonly<Record<string, unknown>> = {}, turns: () => number = () => 0): CreateTrap =>
  (max) => ({ event, fields, nth: 1 + randomInt(max), turns: turns() });
const randomTurns = (): number => 1 + randomInt(8);

const submitted = trapAtLine('executions.transitioned', { cause: 'submitted' });
const intent = trapAtLine('executions.transitioned', { cause: 'dispatch' });
const sent = trapAtLine('executions.sent');
const leaving = trapAtLine('executions.sent', {}, randomTurns);
const receipt = trapAtLine('gateway.command_received');
const storingReceipt = trapAtLine('gateway.command_received', {}, randomTurns);
const delivered = trapAtLine('executions.transitioned', { cause: 'transport_ok' });
const result = trapAtLine('gateway.command_result');
const storingResult = trapAtLine('gateway.command_result', {}, randomTurns);
const settled = trapAtLine('executions.completed', { cause: 'ack' });
const uplink = trapAtLine('gateway.uplink');
const storingUplink = trapAtLine('gateway.uplink', {}, randomTurns);
const uplinkStored = trapAtLine('gateway.uplink_stored');
const queryStored = trapAtLine('executions.transitioned', { cause: 'ack' });
const queryAnswered = trapAtLine('executions.completed', { cause: 'query_answered' });
const effectSeen = trapAtLine('executions.completed', { cause: 'sensors_matched' });
const cancelled = trapAtLine('executions.completed', { cause: 'cancelled' });
const cancelling = trapAtLine('executions.completed', { cause: 'cancelled' }, randomTurns);
const expired = trapAtLine('executions.completed', { cause: 'timer' });

// What a server does first with executions that an earlier one left open.
const unsure = trapAtLine('executions.transitioned', { cause: 'link_lost' });
const requeued = trapAtLine('executions.transitioned', { cause: 'known_undelivered' });
const reconciled = trapAtLine('executions.reconciled');
const attached = trapAtLine('gateway.attached', {}, randomTurns);

const pickRandomTrap =
  (...traps: readonly CreateTrap[]): CreateTrap =>
  (max) =>
    (traps[randomInt(traps.length)] as CreateTrap)(max);
const any = pickRandomTrap(
  submitted,
  intent,
  sent,
  leaving,
  receipt,
  storingReceipt,
  delivered,
  result,
  storingResult,
  settled,
  uplink,
  storingUplink,
  uplinkStored,
  queryStored,
  queryAnswered,
  effectSeen,
);
const recovery = pickRandomTrap(unsure, requeued, reconciled, attached);

const createLinePoint = (name: string, trap: CreateTrap, conditions = PATIENT): KillPoint => ({
  name,
  kill: { by: 'line', trap },
  conditions,
});

/** Every place where a crash could lose or duplicate something. */
export const KILL_POINTS: readonly KillPoint[] = [
  createLinePoint('request stored, no response sent', submitted),
  createLinePoint('intent stored, nothing sent', intent),
  createLinePoint('written to the stream', sent),
  createLinePoint('being sent', leaving),
  { name: 'the gateway has the command but has not confirmed it', kill: { by: 'gateway' }, conditions: PATIENT },
  createLinePoint('command_received arrived', receipt),
  createLinePoint('command_received being stored', storingReceipt),
  createLinePoint('command_received stored', delivered),
  createLinePoint('command_result arrived', result),
  createLinePoint('command_result being stored', storingResult),
  createLinePoint('command_result stored, no ack sent', settled),
  createLinePoint('uplink arrived', uplink),
  createLinePoint('uplink being stored', storingUplink),
  createLinePoint('uplink stored, no ack sent', uplinkStored),
  createLinePoint('query stored, not sent', queryStored, HALF),
  createLinePoint('query response stored', queryAnswered, HALF),
  createLinePoint('observed effect stored', effectSeen, HALF),
  {
    name: 'sending, and again during recovery',
    kill: { by: 'line', trap: pickRandomTrap(intent, sent, leaving), atStart: () => recovery(1) },
    conditions: PATIENT,
  },
  { name: 'any moment', kill: { by: 'time' }, conditions: PATIENT },
  createLinePoint('cancelled, no response sent', pickRandomTrap(cancelled, cancelling), { ...PATIENT, cancels: true }),
  {
    name: 'any moment, cancelled and watched',
    kill: { by: 'time' },
    conditions: { ...PATIENT, cancels: true, watched: true },
  },
  {
    name: 'any moment, alternating positions',
    kill: { by: 'time' },
    conditions: { ...PATIENT, cancels: true, repeats: true },
  },
  createLinePoint('any of these, deadlines expire', any, SHORT_TIMEOUTS),
  createLinePoint('deadline expired', expired, SHORT_TIMEOUTS),
  createLinePoint('any of these, gateway forgets', any, FORGETFUL),
  { name: 'any moment, gateway forgets', kill: { by: 'time' }, conditions: FORGETFUL },
];
