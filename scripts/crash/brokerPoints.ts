import { randomInt } from 'node:crypto';
import type { Trap } from './trapLogger';

/** How the devices are connected. */
export type Transport = 'mqtt' | 'mqtt_answer' | 'chirpstack';

/**
 * What is killed: the server by itself at a line of its log (`line`), the server by this program at a random moment
 * (`time`), or the broker at a random moment (`broker`).
 */
export type BrokerKill =
  { readonly by: 'line'; readonly trap: () => Trap } | { readonly by: 'time' } | { readonly by: 'broker' };

/** One row of the proof, with a broker between server and devices. */
export interface BrokerPoint {
  readonly name: string;
  readonly transport: Transport;
  readonly kill: BrokerKill;
}

const MAX_OCCURRENCE = 25;
const MAX_TURNS = 8;

const trapAtLine =
  (event: string, fields: Readonly<Record<string, unknown>> = {}, isDelayed = false): (() => Trap) =>
  () => ({ event, fields, nth: 1 + randomInt(MAX_OCCURRENCE), turns: isDelayed ? 1 + randomInt(MAX_TURNS) : 0 });
const pickRandomTrap =
  (...traps: readonly (() => Trap)[]): (() => Trap) =>
  () =>
    (traps[randomInt(traps.length)] as () => Trap)();

const stored = pickRandomTrap(
  trapAtLine('executions.transitioned', { cause: 'submitted' }),
  trapAtLine('executions.transitioned', { cause: 'dispatch' }),
);
const leaving = pickRandomTrap(trapAtLine('executions.sent'), trapAtLine('executions.sent', {}, true));
const evidence = pickRandomTrap(
  trapAtLine('executions.transitioned', { cause: 'transport_ok' }),
  trapAtLine('executions.transitioned', { cause: 'transport_ok' }, true),
);
const effect = pickRandomTrap(
  trapAtLine('executions.completed', { cause: 'sensors_matched' }),
  trapAtLine('executions.completed', { cause: 'sensors_matched' }, true),
);
const answered = pickRandomTrap(
  trapAtLine('executions.completed', { cause: 'ack' }),
  trapAtLine('executions.transitioned', { cause: 'ack' }, true),
);

const createPoint = (transport: Transport, step: string, trap: () => Trap): BrokerPoint => ({
  name: `${transport}: ${step}`,
  transport,
  kill: { by: 'line', trap },
});

/** Every write step of an execution over a broker, and the broker itself. */
export const BROKER_POINTS: readonly BrokerPoint[] = [
  ...(['mqtt', 'chirpstack'] as const).flatMap((transport) => [
    createPoint(transport, 'request or intent stored, nothing sent', stored),
    createPoint(transport, 'being sent', leaving),
    createPoint(transport, 'delivery evidence stored', evidence),
    createPoint(transport, 'effect observed', effect),
    { name: `${transport}: any moment`, transport, kill: { by: 'time' } as const },
    { name: `${transport}: the broker, any moment`, transport, kill: { by: 'broker' } as const },
  ]),
  createPoint('mqtt_answer', 'response stored', answered),
  { name: 'mqtt_answer: the broker, any moment', transport: 'mqtt_answer', kill: { by: 'broker' } },
];
