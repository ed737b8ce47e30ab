import type { ServerOptions } from '../options';
import type { GatewayEvent } from './events';
import type { GatewayStore } from './store/gatewayStore';

/** A command for a device behind this gateway. */
export interface DeliveredCommand {
  readonly executionId: string;
  /** Counts from 1; more than 1 when an earlier attempt was proven not received. */
  readonly attempt: number;
  /** The device, as the connection knows it. */
  readonly clientDeviceId: string;
  /** What to send to the device: JSON, or the encoder's bytes. */
  readonly payload: { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  /** LoRaWAN fPort, 1 to 223. */
  readonly fPort: number | undefined;
  /** Ask the device for a confirmation where the protocol has it. */
  readonly confirmed: boolean;
  /** The command's topic; empty: none. */
  readonly topic: string;
}

/** How the delivery of a command ended, as the gateway saw it. */
export interface DeliveryResult {
  /**
   * `accepted`: the device acknowledged. `rejected`, `failed`: it answered negatively, or with an error. `no_answer`: it was tried, and nobody
   * knows. `unreachable`: nothing reached the device, for certain. `refused`: this gateway will not take it.
   */
  readonly result: 'accepted' | 'rejected' | 'failed' | 'no_answer' | 'unreachable' | 'refused';
  /** The device's or gateway's own code; at most 128 characters. */
  readonly code?: string;
  /** What the device or gateway said; at most 2000 characters. */
  readonly message?: string;
  /** When it happened, by the gateway's clock; now unless said. */
  readonly time?: Date;
}

/** What a delivery is told beside the command. */
export interface Delivery {
  /** Aborts when the execution has ended on the server (withdrawn), when the delivery takes too long, and when the gateway stops. What is known by then is still to be answered. */
  readonly signal: AbortSignal;
}

/** Something that a device sent. */
export interface GatewayUplink {
  /** The device, as the connection knows it. */
  readonly clientDeviceId: string;
  /** Decoded values, or raw bytes for the profile of the device; at most 64 KiB. */
  readonly payload: { readonly kind: 'json'; readonly value: Readonly<Record<string, unknown>> } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  /** When the device sent it, by the gateway's clock; when it was handed over unless said. */
  readonly time?: Date;
  /** LoRaWAN fPort of raw bytes, 0 to 255. */
  readonly fPort?: number;
  /** The same for the same uplink: 1 to 64 characters. One is made where none is given. */
  readonly uplinkId?: string;
}

/** What startGateway is given. */
export interface GatewayOptions extends ServerOptions {
  /** The connection that it serves, of connector type `gateway`. */
  readonly connectionId: string;
  /** The same over all starts of this gateway: 1 to 128 characters, no white space. Left out: the one that the store keeps, made at its first start. */
  readonly gatewayId?: string;
  /** Name and version of your software, at most 128 characters: for the server's log, and shown in the status of the connection to all who may read connections. */
  readonly software?: string;
  /** What it must not forget. `sqliteStore(file)` survives a restart and a power cut; `memoryStore()` does not, and the server is told so. */
  readonly store: GatewayStore;
  /**
   * Delivers a command to its device. Called at most once for an execution, never after its deadline, for one device one after another. What it
   * throws is told as `no_answer`, for nobody knows what reached the device. One that takes longer than `deliveryTimeoutMs` is left to itself: heed its signal,
   * for the next command of the device follows then.
   */
  readonly deliver: (command: DeliveredCommand, delivery: Delivery) => Promise<DeliveryResult> | DeliveryResult;
  /**
   * A source of uplinks, read as fast as they can be kept; `send` of the gateway takes single ones too. Its end is no event. One of its uplinks that the
   * server would not take is left out: event `uplink_refused`. Up to 256 that were taken from it are not kept yet, and are gone if the process is killed; `send` says
   * when an uplink is safe. If it throws, the gateway stops in peace and `ended` rejects with `source_failed`.
   */
  readonly uplinks?: AsyncIterable<GatewayUplink>;
  /** Everything that happens, for a log. Must not throw. */
  readonly onEvent?: (event: GatewayEvent) => void;
  /** How many commands are delivered at the same time, to different devices; those of one device never are. 64 unless said; 1 where they share a bus that takes one at a time. */
  readonly deliveriesAtOnce?: number;
  /** After so many milliseconds a delivery without an answer is told as `no_answer`. 60,000 unless said. */
  readonly deliveryTimeoutMs?: number;
  /** How many uplinks are kept that the server has not acknowledged; then `send` rejects with `uplinks_full` and the source is not read. 100,000 unless said. */
  readonly mostUplinks?: number;
  /** How many bytes these may have, as in `mostUplinks`; a reading of five numbers has about 160. 268,435,456 (256 MiB) unless said: so much memory, or disk, may it take. */
  readonly mostUplinkBytes?: number;
  /** What becomes of it when the server refuses it for good (key, connection): `retry` every minute, or `stop` with the error. `retry` unless said. */
  readonly whenRefused?: 'retry' | 'stop';
  /** True: does not confirm commands with `command_received`, only by their results: for trying out how the server deals with such gateways. */
  readonly withoutReceipts?: boolean;
  /** Pause before the attempt that follows this many failed ones, in milliseconds; from 1 s to 30 s with some chance in it unless said, and where it throws or gives none. */
  readonly backoffMs?: (failures: number) => number;
}

/** A running gateway. */
export interface Gateway {
  /** Resolves when it was stopped. Rejects with PlantroomError where `whenRefused` is `stop` and the server refused it for good, with GatewayError where its store is beyond use (`store_damaged`) or its source of uplinks threw (`source_failed`). Nobody need wait for it. */
  readonly ended: Promise<void>;
  /** Who it is to the server. */
  readonly gatewayId: string;
  /** Keeps an uplink; resolves when it is in the store, on disk where that is durable: from then on it reaches the server. Rejects with GatewayError. */
  send(uplink: GatewayUplink): Promise<{ readonly uplinkId: string }>;
  /** Ends in peace: takes nothing new, lets what is being delivered end for at most `graceMs` (5,000 unless said; Infinity: however long it takes), and closes the store. Rejects with GatewayError `options_invalid` where that is no number from 0 on. */
  stop(graceMs?: number): Promise<void>;
}
