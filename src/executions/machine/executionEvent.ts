/**
 * The maximum number of logged events per execution for reports that peers can repeat without limit, so that they
 * cannot fill the disk.
 */
export const MAX_EVENTS = 200;

/**
 * Why the server cancels a query: its parent is final, the second try replaces it, or another try received a response.
 */
export type QueryCancelReason = 'parent_ended' | 'asked_again' | 'already_answered';

/** The events of an execution. Codes and messages come from the device, the transport or the gateway. */
export type ExecutionEvent =
  /** The command is sent to an attached peer. The state is committed before any byte leaves the server. */
  | { readonly kind: 'dispatch'; readonly peerId: string; readonly bootId: string }
  /** The last hop that reports, for example the network server, accepted the command. */
  | ({ readonly kind: 'transport_ok' } & ReportedResult)
  /**
   * Follows in the same transaction if a row of the transition table says so: finishes executions that need nothing
   * more, and evaluates deferred uplinks.
   */
  | { readonly kind: 'settle' }
  /** Provably not delivered; a retry makes sense. */
  | { readonly kind: 'known_undelivered'; readonly code?: string; readonly message?: string }
  /** The transport rejects it. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  /** Provably not delivered, because there was no path or no time left. */
  | { readonly kind: 'unreachable'; readonly code: string; readonly message: string }
  /** A network server could not send it yet and retries automatically. */
  | { readonly kind: 'network_retry'; readonly code: string; readonly message: string }
  /** The link was lost, or the server restarted: it is unknown whether the command was sent. */
  | { readonly kind: 'link_lost' }
  /** The device acknowledged. */
  | ({ readonly kind: 'ack'; readonly code?: string; readonly message?: string } & ReportedResult)
  /** The device responded with a rejection. */
  | { readonly kind: 'negative'; readonly code: string; readonly message: string }
  /**
   * A response arrived that says neither success nor rejection. `message` contains the beginning of the response. It
   * shows that the command was received.
   */
  | ({ readonly kind: 'answer_not_understood'; readonly message: string } & ReportedResult)
  /** It was attempted, but no response was observed. */
  | ({ readonly kind: 'no_answer'; readonly code: string; readonly message: string } & ReportedResult)
  /**
   * A readable uplink whose sample was taken after the delivery. If sensor states are expected, it does not match them,
   * and `values` are those of the expected sensors. `message`: what an uplink proves without expected states.
   */
  | { readonly kind: 'uplink'; readonly values?: Readonly<Record<string, unknown>>; readonly message?: string }
  /**
   * Every expected sensor has a newer sample with its frozen value. `changed`: at least one had an earlier sample with
   * another value.
   */
  | { readonly kind: 'sensors_matched'; readonly changed: boolean; readonly samples?: readonly unknown[] }
  /** The query of this execution received a response; the query is a separate execution. */
  | { readonly kind: 'query_answered'; readonly queryExecutionId?: string }
  /** The query finished without a response. */
  | {
      readonly kind: 'query_failed';
      readonly queryExecutionId: string;
      readonly state: string;
      readonly detail: string;
    }
  /**
   * A newer delivered execution expects another value of a shared sensor, or a newer command was sent before the uplink
   * that would have decided. Then `values` are those of the expected sensors in that uplink.
   */
  | {
      readonly kind: 'superseded';
      readonly byExecutionId: string;
      readonly values?: Readonly<Record<string, unknown>> | undefined;
    }
  /** Device, connection or organization deleted; physical device unbound or rebound. */
  | { readonly kind: 'removed'; readonly reason: string }
  /** Cancelled by a caller, or by the server for a reason. */
  | { readonly kind: 'cancelled'; readonly reason?: QueryCancelReason }
  /** The database was restored from a backup. */
  | { readonly kind: 'restored' }
  /** A deadline expired. */
  | { readonly kind: 'timer'; readonly timer: Timer };

/** The peer's time of an event that may be the first report of a delivery. */
export interface ReportedResult {
  /** Unix milliseconds on the peer's clock. */
  readonly peerTime?: number | undefined;
  /** Identifies the clock of `peerTime`. */
  readonly peerClock?: string | undefined;
  /** The arrival time of the report at the server; undefined: now. */
  readonly reportReceivedAt?: number | undefined;
  /** LoRaWAN: the frame counter of the uplink that opened the receive window of the delivery. */
  readonly fCnt?: number | undefined;
  /** LoRaWAN: the device address of the session of `fCnt`. */
  readonly devAddr?: string | undefined;
}

const DELIVERY_REPORTS = ['transport_ok', 'ack', 'answer_not_understood', 'no_answer'] as const;

/** Whether an event, or its evidence, may be the first report of a delivery (see ReportedResult). */
export function reportsDelivery<E extends { readonly kind: string }>(
  event: E,
): event is Extract<E, { readonly kind: (typeof DELIVERY_REPORTS)[number] }> {
  return (DELIVERY_REPORTS as readonly string[]).includes(event.kind);
}

/** The deadlines of an execution. `query` finishes no state: the device is then queried a second time. */
export const TIMERS = ['delivery', 'ack', 'conv', 'query'] as const;

/** One of TIMERS. */
export type Timer = (typeof TIMERS)[number];

/** The name of an event. */
export type EventKind = ExecutionEvent['kind'];

/** The layer of each event (see getLayer), and of each timer. */
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
  answer_not_understood: 3,
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

/** Returns the layer of an event: 1 request, 2 transport, 3 device, 4 sensors. */
export function getLayer(event: ExecutionEvent): number {
  return event.kind === 'timer' ? TIMER_LAYERS[event.timer] : LAYERS[event.kind];
}

/**
 * Returns the data of an event for the log, in snake_case, without absent or empty fields and without the peer's times.
 */
export function getEventData(event: ExecutionEvent): Record<string, unknown> {
  const {
    kind: _kind,
    peerTime: _peerTime,
    peerClock: _peerClock,
    reportReceivedAt: _reportReceivedAt,
    ...fields
  } = event as ExecutionEvent & ReportedResult;
  return toSnakeCase(fields);
}

/** Converts field names to snake_case and omits absent or empty fields. */
function toSnakeCase(fields: object): Record<string, unknown> {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined && value !== '');
  return Object.fromEntries(
    present.map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value as unknown,
    ]),
  );
}
