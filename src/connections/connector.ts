/** A command on its way to a device, as a connector sends it. */
export interface Downlink {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly executionId: string;
  /** Counts from 1. */
  readonly attempt: number;
  readonly clientDeviceId: string;
  /** Unix milliseconds; it may not be started later. */
  readonly deadline: number;
  readonly payload: { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  /** Empty: none. */
  readonly topic: string;
}

/** The other side of a connection as it is attached now. */
export interface Peer {
  /** The gateway's own id, the same over its starts. */
  readonly peerId: string;
  /** New with each start of the gateway software. */
  readonly bootId: string;
  /** This attachment; a send names it, so that it never goes to another one. */
  readonly session: number;
  /** How many more commands it takes now. */
  readonly capacity: number;
}

/** `sent`: handed to the transport. `not_sent`: provably no byte left the server. */
export type SendResult = 'sent' | 'not_sent';

/**
 * What a connector learnt about an execution. `time` is Unix milliseconds on the other side's clock, `clock` says whose that is: times are
 * compared on one clock only. `receivedAt` is the stamp of its arrival (Arrivals), undefined: just now. An uplink that came right behind it
 * must not seem older, however long either waited for its turn.
 */
export type Evidence = EvidenceFacts & { readonly receivedAt?: number | undefined; readonly clock?: string | undefined };

type EvidenceFacts =
  | { readonly kind: 'transport_ok'; readonly time?: number | undefined }
  | { readonly kind: 'ack'; readonly time?: number | undefined; readonly code?: string; readonly message?: string }
  /** The device answered negatively. */
  | { readonly kind: 'negative'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** It was tried and no answer came. */
  | { readonly kind: 'no_answer'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** Nothing reached the device, for want of a path or of time. */
  | { readonly kind: 'unreachable'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** The transport will not take it. */
  | { readonly kind: 'refused'; readonly time?: number | undefined; readonly code: string; readonly message: string };

/** What became of evidence. `unknown`: no such execution on this connection. */
export type EvidenceOutcome = 'applied' | 'late' | 'unknown';

/** What a gateway says of itself when it attaches. */
export interface Attachment {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly peerId: string;
  readonly bootId: string;
  /** What it received survives its restart. */
  readonly durable: boolean;
  /** What it holds of earlier commands: received only (`transport_ok`), or with the result. */
  readonly known: readonly { readonly executionId: string; readonly evidence: Evidence }[];
}

/** What a device sent. */
export interface UplinkMessage {
  readonly organizationId: string;
  readonly connectionId: string;
  /** Unique per connection for 7 days; a repeated one changes nothing. */
  readonly uplinkId: string;
  readonly clientDeviceId: string;
  /** The stamp of its arrival: Unix milliseconds, with a fraction that only orders (Arrivals). */
  readonly receivedAt: number;
  /** When the device sent it, on the other side's clock; undefined: it did not say. */
  readonly time: number | undefined;
  /** Whose clock `time` is of, the same for one clock over all its starts and different for any two; a connector with one clock gives a constant. */
  readonly clock: string;
  readonly payload: { readonly kind: 'json'; readonly value: Readonly<Record<string, unknown>> } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  readonly fPort: number | undefined;
}

/** What became of an uplink; `rejected` ones can never be stored. */
export type UplinkOutcome = { readonly outcome: 'stored' | 'duplicate' } | { readonly outcome: 'rejected'; readonly reason: string };

/** What connectors need of the rooms above them; app.ts hands it down. Each promise resolves when the fact is on disk. */
export interface ConnectorEvents {
  uplink(message: UplinkMessage): Promise<UplinkOutcome>;
  evidence(organizationId: string, connectionId: string, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome>;
  /** Settles what was on its way when the other side was last seen. Resolves before any new command is sent to it. */
  attached(attachment: Attachment): Promise<void>;
  /**
   * Nobody is attached any more: the stream ended, for whatever reason, and no newer one took its place (then that one's `attached` settles all).
   * Comes when all that the old attachment brought is stored; the `attached` of the next one waits until this has resolved, so neither
   * ever sees the other half done. A rejection is logged, and the next `attached` does what was left.
   */
  detached(organizationId: string, connectionId: string): Promise<void>;
  /** There may be room for another command on this connection. */
  ready(organizationId: string, connectionId: string): void;
}
