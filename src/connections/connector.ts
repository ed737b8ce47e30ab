import type { Connection } from './connection';
import type { JsonObject } from './connectorType';

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

/** What a connection needs to work: its connection as it is stored, and its configuration together with its secret fields. */
export interface OpenConnection {
  readonly connection: Connection;
  readonly settings: JsonObject;
}

/** One thing that TestConnection looked at. */
export interface ConnectionCheck {
  /** snake_case, for example `tls`, `sign_in`, `subscribe`. */
  readonly name: string;
  readonly outcome: 'ok' | 'warning' | 'failed' | 'skipped';
  /** What was found, and for all but `ok` and `skipped` what to change. Never a secret. */
  readonly message: string;
}

/**
 * One way to devices: each kind of the catalogue has one of these. Nothing here throws for what the other side does: that shows in
 * the connection's status. A connection that does not work holds up neither the others nor the caller.
 */
export interface Connector {
  /** The connector type that it serves. */
  readonly id: string;
  /** Hands the rooms above down. Called once, before anything else. */
  start(events: ConnectorEvents): void;
  /** A connection was created, or the server has just started, or a change to it is on disk: takes it up as it is now, enabled or not. Returns at once. */
  connectionChanged(open: OpenConnection): void;
  /** A connection was deleted and that is on disk. */
  connectionDeleted(connectionId: string): void;
  /** Who is there to take commands; undefined: nobody, or it is no connection of this connector. */
  peer(connectionId: string): Peer | undefined;
  /** Sends a command to one attachment and to no other; its intent is on disk before. Resolves as soon as the transport has it, not when the other side took it. */
  send(downlink: Downlink, session: number): Promise<SendResult>;
  /** Takes a command back that was sent and has not left yet. True: not one byte of it left, and none will. */
  takeBack(connectionId: string, executionId: string): boolean;
  /** Tells the other side to drop a command that ended here, where it can be told. */
  withdraw(connectionId: string, executionId: string): void;
  /** Tries a connection out, which need not be stored (then its id is empty), and leaves nothing behind. Ends within 20 s, sooner if the signal aborts. */
  test(open: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]>;
  /** Resolves when every link is closed and all that came over it is stored or left to be sent again. */
  stop(): Promise<void>;
}

/**
 * What a connector learnt about an execution. `time` is Unix milliseconds on the other side's clock, `clock` says whose that is: times are
 * compared on one clock only. `receivedAt` is the stamp of its arrival (Arrivals), undefined: just now. An uplink that came right behind it
 * must not seem older, however long either waited for its turn. `fCnt`: LoRaWAN class A, the frame counter of the uplink that opened the
 * receive window of the delivery. `clientDeviceId`: whoever said it surely is this device, so it is about no command to another one.
 */
export type Evidence = EvidenceFacts & { readonly clientDeviceId?: string | undefined; readonly receivedAt?: number | undefined; readonly clock?: string | undefined; readonly fCnt?: number | undefined };

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
  | { readonly kind: 'refused'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** Provably not delivered, and worth another attempt: nobody was there to take it. */
  | { readonly kind: 'known_undelivered'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** A network server could not send it just now and tries again by itself. */
  | { readonly kind: 'network_retry'; readonly time?: number | undefined; readonly code: string; readonly message: string };

/** What became of evidence. `unknown`: no such execution on this connection. */
export type EvidenceOutcome = 'applied' | 'late' | 'unknown';

/** What the other side says of itself when it attaches; a broker holds nothing that it could tell of. */
export interface Attachment {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly peerId: string;
  readonly bootId: string;
  /** What the event log names for it: `gateway:<id>`, `mqtt`, `chirpstack`. */
  readonly source: string;
  /** What it received survives its restart. */
  readonly durable: boolean;
  /** What it holds of earlier commands: received only (`transport_ok`), or with the result. */
  readonly known: readonly { readonly executionId: string; readonly evidence: Evidence }[];
}

/** What a device sent. */
export interface UplinkMessage {
  readonly organizationId: string;
  readonly connectionId: string;
  /** How a repeated one is told. */
  readonly identity: UplinkIdentity;
  readonly clientDeviceId: string;
  /** The stamp of its arrival: Unix milliseconds, with a fraction that only orders (Arrivals). */
  readonly receivedAt: number;
  /** When the device sent it, on the other side's clock; undefined: it did not say. */
  readonly time: number | undefined;
  /**
   * Whose clock `time` is of, the same for one clock over all its starts and different for any two; a connector with one clock gives a
   * constant. Undefined: no delivery is ever told on that clock, so `time` only says when the sample was taken.
   */
  readonly clock: string | undefined;
  /** It waited at a broker while the server was away, nobody knows how long: it is stored, but proves nothing about a command. */
  readonly isBuffered?: boolean;
  /** LoRaWAN: the frame counter of the uplink. */
  readonly fCnt?: number | undefined;
  /** LoRaWAN: the class that the device has now. */
  readonly deviceClass?: 'A' | 'B' | 'C' | undefined;
  readonly payload: { readonly kind: 'json'; readonly value: Readonly<Record<string, unknown>> } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  /** Beside JSON that only describes them, or that they may be by chance: the bytes of the device, if nobody decoded them. */
  readonly encoded?: Uint8Array | undefined;
  readonly fPort: number | undefined;
}

/**
 * `id`: unique per connection for 7 days. `delivery`: for a transport whose messages have no ids of their own (MQTT QoS 1): the slot is
 * that of the transport (its packet identifier), and a message marked as a repetition is one if what came last in the slot had the
 * same digest and came at `acknowledgedBefore` (Unix milliseconds) or later: the transport surely knows that it has all that came before. `none`: the transport never repeats it (QoS 0).
 */
export type UplinkIdentity =
  | { readonly kind: 'id'; readonly uplinkId: string }
  | { readonly kind: 'delivery'; readonly slot: string; readonly digest: string; readonly isRepetition: boolean; readonly acknowledgedBefore?: number | undefined }
  | { readonly kind: 'none' };

/** What became of an uplink; `rejected` ones can never be stored. */
export type UplinkOutcome = { readonly outcome: 'stored' | 'duplicate' } | { readonly outcome: 'rejected'; readonly reason: string };

/** What connectors need of the rooms above them; app.ts hands it down. Each promise resolves when the fact is on disk. */
export interface ConnectorEvents {
  uplink(message: UplinkMessage): Promise<UplinkOutcome>;
  evidence(organizationId: string, connectionId: string, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome>;
  /** Evidence of which only the device is known, for transports that have one command under way for each: it is about that one. `unknown`: none is. */
  deviceEvidence(organizationId: string, connectionId: string, clientDeviceId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome>;
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
