import { randomInt } from 'node:crypto';
import type { Trap } from './trapLogger';

/** How the devices are reached. */
export type Transport = 'mqtt' | 'mqtt_answer' | 'chirpstack';

/** Who is killed: the server by itself at a line of its log, the server from outside at any moment, or the broker at any moment. */
export type BrokerKill = { readonly by: 'line'; readonly trap: () => Trap } | { readonly by: 'time' } | { readonly by: 'broker' };

/** One row of the proof with a broker between server and devices. */
export interface BrokerPoint {
  readonly name: string;
  readonly transport: Transport;
  readonly kill: BrokerKill;
}

const MOST = 25;
const MOST_TURNS = 8;

const line =
  (event: string, fields: Readonly<Record<string, unknown>> = {}, isAmid = false): (() => Trap) =>
  () => ({ event, fields, nth: 1 + randomInt(MOST), turns: isAmid ? 1 + randomInt(MOST_TURNS) : 0 });
const oneOf =
  (...traps: readonly (() => Trap)[]): (() => Trap) =>
  () => (traps[randomInt(traps.length)] as () => Trap)();

const stored = oneOf(line('executions.advanced', { cause: 'submitted' }), line('executions.advanced', { cause: 'dispatch' }));
const leaving = oneOf(line('executions.sent'), line('executions.sent', {}, true));
const evidence = oneOf(line('executions.advanced', { cause: 'transport_ok' }), line('executions.advanced', { cause: 'transport_ok' }, true));
const effect = oneOf(line('executions.ended', { cause: 'sensors_matched' }), line('executions.ended', { cause: 'sensors_matched' }, true));
const answered = oneOf(line('executions.ended', { cause: 'ack' }), line('executions.advanced', { cause: 'ack' }, true));

const at = (transport: Transport, step: string, trap: () => Trap): BrokerPoint => ({ name: `${transport}: ${step}`, transport, kill: { by: 'line', trap } });

/** Every write step of an execution over a broker, and the broker itself. */
export const BROKER_POINTS: readonly BrokerPoint[] = [
  ...(['mqtt', 'chirpstack'] as const).flatMap((transport) => [
    at(transport, 'request or intent stored, nothing sent', stored),
    at(transport, 'leaving', leaving),
    at(transport, 'sign of delivery stored', evidence),
    at(transport, 'effect seen', effect),
    { name: `${transport}: any moment`, transport, kill: { by: 'time' } as const },
    { name: `${transport}: the broker, any moment`, transport, kill: { by: 'broker' } as const },
  ]),
  at('mqtt_answer', 'answer stored', answered),
  { name: 'mqtt_answer: the broker, any moment', transport: 'mqtt_answer', kill: { by: 'broker' } },
];
