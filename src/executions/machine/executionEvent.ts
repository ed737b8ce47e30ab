/** What others may tell as often as they like is not kept beyond so many events of an execution, so that nobody can fill the disk with it. */
export const MOST_EVENTS = 200;

/** Why the server takes a query back: its parent has ended, the second try takes its place, another try was answered. */
export type TakenBack = 'parent_ended' | 'asked_again' | 'already_answered';

/** What can happen to an execution. Codes and messages are those of the device, the transport or the gateway. */
export type ExecutionEvent =
  /** Its turn has come and the other side is there. The state is on disk before a byte leaves. */
  | { readonly kind: 'dispatch'; readonly peerId: string; readonly bootId: string }
  /** The last hop that can be observed took it. */
  | ({ readonly kind: 'transport_ok' } & Told)
  /** Follows in the same transaction where a row says so: ends what needs nothing more, and judges what was set aside. */
  | { readonly kind: 'settle' }
  /** Proven not delivered, worth another attempt. */
  | { readonly kind: 'known_undelivered'; readonly code?: string; readonly message?: string }
  /** The transport will not take it. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  /** Proven not delivered, for want of a path or of time. */
  | { readonly kind: 'unreachable'; readonly code: string; readonly message: string }
  /** A network server could not send it just now and tries again by itself. */
  | { readonly kind: 'network_retry'; readonly code: string; readonly message: string }
  /** The link was lost, or the server started again: nobody can say whether it went out. */
  | { readonly kind: 'link_lost' }
  /** The device acknowledged. */
  | ({ readonly kind: 'ack'; readonly code?: string; readonly message?: string } & Told)
  /** The device answered negatively. */
  | { readonly kind: 'negative'; readonly code: string; readonly message: string }
  /** It was tried and no answer was seen. */
  | ({ readonly kind: 'no_answer'; readonly code: string; readonly message: string } & Told)
  /** The first uplink after delivery; if sensor states are expected, it does not show them. */
  | { readonly kind: 'uplink'; readonly values?: Readonly<Record<string, unknown>> }
  /** Every expected sensor has a newer sample with its frozen value; `changed`: at least one had an earlier sample without it. */
  | { readonly kind: 'sensors_matched'; readonly changed: boolean; readonly samples?: readonly unknown[] }
  /** The query command of this execution was answered; it is an execution of its own. */
  | { readonly kind: 'query_answered'; readonly queryExecutionId?: string }
  /** It ended without an answer. */
  | { readonly kind: 'query_failed'; readonly queryExecutionId: string; readonly state: string; readonly detail: string }
  /** A newer execution that was delivered wants another value on a shared sensor. */
  | { readonly kind: 'superseded'; readonly byExecutionId: string }
  /** Device, connection or organization deleted; physical device unbound or rebound. */
  | { readonly kind: 'removed'; readonly reason: string }
  /** A person took it back, or the server did, and why. */
  | { readonly kind: 'cancelled'; readonly reason?: TakenBack }
  /** The database was restored from a backup. */
  | { readonly kind: 'restored' }
  /** A deadline has come. */
  | { readonly kind: 'timer'; readonly timer: Timer };

/** When the other side says that it was: in what may be the first sign of a delivery. */
export interface Told {
  /** Unix milliseconds on its clock. */
  readonly peerTime?: number | undefined;
  /** Whose clock that is. */
  readonly peerClock?: string | undefined;
  /** The stamp of its arrival at the server; undefined: just now. */
  readonly toldAt?: number | undefined;
  /** LoRaWAN: the frame counter of the uplink that opened the receive window of the delivery. */
  readonly fCnt?: number | undefined;
}

/** The deadlines that an execution can have; `query` ends no state: it is when the device is asked once more. */
export const TIMERS = ['delivery', 'ack', 'conv', 'query'] as const;

/** One of TIMERS. */
export type Timer = (typeof TIMERS)[number];

/** The name of an event. */
export type EventKind = ExecutionEvent['kind'];

const LAYERS: Readonly<Record<Exclude<EventKind, 'timer'>, number>> = {
  dispatch: 2,
  transport_ok: 2,
  settle: 2,
  known_undelivered: 2,
  refused: 2,
  unreachable: 2,
  network_retry: 2,
  link_lost: 2,
  ack: 3,
  negative: 3,
  no_answer: 3,
  uplink: 3,
  sensors_matched: 4,
  query_answered: 3,
  query_failed: 3,
  superseded: 4,
  removed: 1,
  cancelled: 1,
  restored: 1,
};
const TIMER_LAYERS: Readonly<Record<Timer, number>> = { delivery: 2, ack: 3, conv: 4, query: 3 };

/** The layer that an event tells about: 1 request, 2 transport, 3 device, 4 sensors. */
export function layerOf(event: ExecutionEvent): number {
  return event.kind === 'timer' ? TIMER_LAYERS[event.timer] : LAYERS[event.kind];
}

/** The facts of an event for the log, in snake_case, without those that are absent or empty. */
export function eventData(event: ExecutionEvent): Record<string, unknown> {
  const { kind: _kind, peerTime: _peerTime, peerClock: _peerClock, toldAt: _toldAt, ...facts } = event as ExecutionEvent & Told;
  return snakeCased(facts);
}

/** The same facts under snake_case names, without those that are absent or empty. */
export function snakeCased(facts: object): Record<string, unknown> {
  const kept = Object.entries(facts).filter(([, value]) => value !== undefined && value !== '');
  return Object.fromEntries(kept.map(([name, value]) => [name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value as unknown]));
}
