import type { Connection } from './connection';
import type { JsonObject } from './connectorType';
import type { ReportedTime } from './sampleTime';

/** A command to a device, as a connector sends it. */
export interface Downlink {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly executionId: string;
  /** Starts at 1. */
  readonly attempt: number;
  readonly clientDeviceId: string;
  /** Unix milliseconds; it must not be started later. */
  readonly deadline: number;
  readonly payload:
    { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  readonly fPort: number | undefined;
  readonly confirmed: boolean;
  /** May be empty. */
  readonly topic: string;
}

/** The peer of a connection (a gateway, or a broker) as it is currently attached. */
export interface Peer {
  /** The gateway's id, which does not change over restarts. */
  readonly peerId: string;
  /** New with each start of the gateway software. */
  readonly bootId: string;
  /** The number of this attachment. A send names it, so that the command never reaches another attachment. */
  readonly session: number;
  /** How many more commands it accepts now. */
  readonly capacity: number;
}

/** `sent`: passed to the transport. `not_sent`: provably no byte left the server. */
export type SendResult = 'sent' | 'not_sent';

/** A stored connection, and its configuration together with its decrypted secret fields. */
export interface OpenConnection {
  readonly connection: Connection;
  readonly settings: JsonObject;
}

/** One result of TestConnection. */
export interface ConnectionCheck {
  /** snake_case, for example `tls`, `sign_in`, `subscribe`. */
  readonly name: string;
  readonly outcome: 'ok' | 'warning' | 'failed' | 'skipped';
  /** The result, and for all but `ok` and `skipped` how to fix it. Never contains a secret. */
  readonly message: string;
}

/**
 * A transport to devices; there is one for each connector type. No method throws because of what the peer does; the
 * connection's status shows it. A failing connection blocks neither other connections nor the caller.
 */
export interface Connector {
  /** The connector type that it serves. */
  readonly id: string;
  /** Passes the event handlers of the higher modules. Called once, before anything else. */
  start(events: ConnectorEvents): void;
  /**
   * Applies a connection that was created or changed, after the commit, or at the start of the server; enabled or not.
   * Returns immediately.
   */
  connectionChanged(open: OpenConnection): void;
  /** Stops a connection that was deleted, after the commit. */
  connectionDeleted(connectionId: string): void;
  /**
   * Returns the peer that accepts commands; undefined if there is none, or it is not a connection of this connector.
   */
  peer(connectionId: string): Peer | undefined;
  /** Reports that a command waits for a peer: a connector that dials out tries to connect soon. */
  connectSoon(connectionId: string): void;
  /**
   * Sends a command to one attachment only; its intent is already committed. Resolves when the transport has it, not
   * when the peer received it.
   */
  send(downlink: Downlink, session: number): Promise<SendResult>;
  /** Cancels a command that was sent and has not left the server. True: no byte of it left, and none will. */
  cancelUnsent(connectionId: string, executionId: string): boolean;
  /** Asks the peer to cancel a command that is final here, if the transport supports it. */
  cancelAtGateway(connectionId: string, executionId: string): void;
  /**
   * Tests a connection without leaving anything behind. It need not be stored; then its id is empty. Ends within 20 s,
   * sooner if the signal aborts.
   */
  test(open: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]>;
  /** Resolves when every link is closed and everything received is stored or left to be sent again. */
  stop(): Promise<void>;
}

/**
 * What a connector reports about an execution. `time` is Unix milliseconds on the peer's clock, which `clock`
 * identifies; only times of the same clock are compared. `receivedAt` is the arrival time (MonotonicTimestamps);
 * undefined: now. An uplink that arrived right after the evidence must not seem older, however long either was queued.
 * `fCnt`: LoRaWAN class A, the frame counter of the uplink that opened the receive window of the delivery; `devAddr`:
 * the device address of its session. `networkDecodes`: whether the network server decoded the frame of the evidence;
 * undefined: there is no frame, or it has no payload. `clientDeviceId`: the device that verifiably sent the evidence,
 * so that it never applies to a command for another device.
 */
export type Evidence = EvidenceContent & {
  readonly clientDeviceId?: string | undefined;
  readonly receivedAt?: number | undefined;
  readonly clock?: string | undefined;
  readonly fCnt?: number | undefined;
  readonly devAddr?: string | undefined;
  readonly networkDecodes?: boolean | undefined;
};

/** What is reported, by kind, with a code and a message for users. */
type EvidenceContent =
  | { readonly kind: 'transport_ok'; readonly time?: number | undefined }
  | { readonly kind: 'ack'; readonly time?: number | undefined; readonly code?: string; readonly message?: string }
  /** The device responded with a rejection. */
  | { readonly kind: 'negative'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /**
   * A response arrived that says neither success nor rejection, for example because its status is missing. `message`
   * contains the beginning of the response.
   */
  | { readonly kind: 'answer_not_understood'; readonly time?: number | undefined; readonly message: string }
  /** The delivery was attempted, but no response arrived. */
  | { readonly kind: 'no_answer'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** Nothing reached the device, because there was no path or no time left. */
  | {
      readonly kind: 'unreachable';
      readonly time?: number | undefined;
      readonly code: string;
      readonly message: string;
    }
  /** The transport rejects the command. */
  | { readonly kind: 'refused'; readonly time?: number | undefined; readonly code: string; readonly message: string }
  /** Provably not delivered, and a retry makes sense: there was no receiver. */
  | {
      readonly kind: 'known_undelivered';
      readonly time?: number | undefined;
      readonly code: string;
      readonly message: string;
    }
  /** A network server could not send the command yet and retries automatically. */
  | {
      readonly kind: 'network_retry';
      readonly time?: number | undefined;
      readonly code: string;
      readonly message: string;
    };

/** The outcome of evidence. `unknown`: the connection has no such execution. */
export type EvidenceOutcome = 'applied' | 'late' | 'unknown';

/** What the peer reports about itself when it attaches. A broker reports nothing. */
export interface Attachment {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly peerId: string;
  readonly bootId: string;
  /** The source in the event log: `gateway:<id>`, `mqtt`, `chirpstack`. */
  readonly source: string;
  /** Whether its received commands survive its restart. */
  readonly durable: boolean;
  /** The earlier commands that the peer still has: only received (`transport_ok`), or with a result. */
  readonly known: readonly KnownExecution[];
  /** Other executions that the peer has, whose reports are invalid. They are only not sent again. */
  readonly alsoHeld?: readonly string[];
}

/** An earlier command that the peer still has, and what it reports about the command. */
export interface KnownExecution {
  readonly executionId: string;
  readonly evidence: Evidence;
}

/** Who reported the time of a sample: the device itself, its gateway, or its network server. */
export type TimeSource = 'device' | 'gateway' | 'network';

/** A message from a device. Without `time`, `timeProblem` says why it could not be read. */
export interface UplinkMessage extends ReportedTime {
  readonly organizationId: string;
  readonly connectionId: string;
  /** Identifies repeated messages. */
  readonly identity: UplinkIdentity;
  readonly clientDeviceId: string;
  /** The arrival time: Unix milliseconds, with a fraction that only defines an order (MonotonicTimestamps). */
  readonly receivedAt: number;
  /** Who reported `time`; undefined if not known. */
  readonly timeSource?: TimeSource | undefined;
  /**
   * Identifies the clock of `time`: constant for one clock over all its restarts, and different for any two clocks. A
   * connector with one clock uses a constant. Undefined: deliveries are never reported on that clock, so `time` only
   * says when the sample was taken.
   */
  readonly clock: string | undefined;
  /**
   * It was buffered at a broker for an unknown time while the server was down. It is stored, but proves nothing about a
   * command.
   */
  readonly isBuffered?: boolean;
  /**
   * The broker had stored it for new subscribers (MQTT retained). It is stored only if `time`, which it must have, is
   * later than the last sample at one of its source paths; otherwise it is a duplicate. The device counts as seen at
   * `time`.
   */
  readonly isRetained?: boolean;
  /** LoRaWAN: the frame counter of the uplink. */
  readonly fCnt?: number | undefined;
  /** LoRaWAN: the device address of the session of `fCnt`. */
  readonly devAddr?: string | undefined;
  /** LoRaWAN: whether the network server decoded the payload; undefined if there is no payload. */
  readonly isDecodedByNetwork?: boolean | undefined;
  /** LoRaWAN: the current class of the device. */
  readonly deviceClass?: 'A' | 'B' | 'C' | undefined;
  /** A number that JSON cannot hold as it was sent is an InexactNumber. */
  readonly payload:
    | { readonly kind: 'json'; readonly value: Readonly<Record<string, unknown>> }
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  /**
   * Why bytes that look like JSON could not be read, or JSON could not be read completely: a code, a colon and a
   * description. Undefined for bytes that do not look like JSON.
   */
  readonly unreadable?: string | undefined;
  /**
   * The raw bytes of the device if they are not decoded, in addition to JSON that only describes them, or that they
   * match by chance.
   */
  readonly encoded?: Uint8Array | undefined;
  readonly fPort: number | undefined;
}

/**
 * How a repeated uplink is recognized. `id`: by an id that is unique per connection for 7 days. `delivery`: for a
 * transport whose messages have no ids (MQTT QoS 1); `slot` is its packet identifier. A message that the transport
 * marks as a repetition (`isRepetition`) is one if the last message in the slot had the same digest and arrived at or
 * after `acknowledgedBefore` (Unix milliseconds): the transport has received the acknowledgements of all earlier
 * messages. `none`: the transport never repeats an uplink (QoS 0).
 */
export type UplinkIdentity =
  | { readonly kind: 'id'; readonly uplinkId: string }
  | {
      readonly kind: 'delivery';
      readonly slot: string;
      readonly digest: string;
      readonly isRepetition: boolean;
      readonly acknowledgedBefore?: number | undefined;
    }
  | { readonly kind: 'none' };

/** Returns the bytes that the device sent: JSON may come with them (`encoded`). Undefined if there are none. */
export function findRawBytes({ payload, encoded }: Pick<UplinkMessage, 'payload' | 'encoded'>): Uint8Array | undefined {
  const bytes = payload.kind === 'bytes' ? payload.bytes : encoded;
  return bytes?.length ? bytes : undefined;
}

/**
 * The outcome of an uplink. `unreadable`: why its payload was stored as bytes, although the device is expected to send
 * JSON, or why a part of it could not be read. A `rejected` one can never be stored.
 */
export type UplinkOutcome =
  | { readonly outcome: 'stored'; readonly unreadable?: string | undefined }
  | { readonly outcome: 'duplicate' }
  | { readonly outcome: 'rejected'; readonly reason: string };

/**
 * The event handlers that connectors call, implemented by higher modules and passed by the composition root (server).
 * Each promise resolves after the commit.
 */
export interface ConnectorEvents {
  /** Processes an uplink. */
  uplink(message: UplinkMessage): Promise<UplinkOutcome>;
  /** Applies evidence about an execution. */
  evidence(
    organizationId: string,
    connectionId: string,
    executionId: string,
    source: string,
    evidence: Evidence,
  ): Promise<EvidenceOutcome>;
  /**
   * Applies evidence that names only a device, for transports with at most one command in flight per device: the
   * evidence is about that command. Resolves to `unknown` if no command is in flight.
   */
  deviceEvidence(
    organizationId: string,
    connectionId: string,
    clientDeviceId: string,
    source: string,
    evidence: Evidence,
  ): Promise<EvidenceOutcome>;
  /**
   * Applies what the peer reports about commands that were in transit when it was last attached. Resolves before any
   * new command is sent to it, with the outcome of each entry of `known`. An entry that could not be stored is omitted.
   */
  attached(attachment: Attachment): Promise<ReadonlyMap<KnownExecution, EvidenceOutcome>>;
  /**
   * Reports that no peer is attached: the stream ended for any reason, and no newer stream replaced it (otherwise the
   * call of `attached` for the newer stream handles everything). Called when everything from the old attachment is
   * stored. The next call of `attached` waits until this promise resolves, so they never run concurrently. A rejection
   * is logged, and the next call of `attached` completes the work.
   */
  detached(organizationId: string, connectionId: string): Promise<void>;
  /** Reports that the connection may accept another command. */
  ready(organizationId: string, connectionId: string): void;
}
