import type { ServerOptions } from '../options';
import type { GatewayEvent } from './events';
import type { GatewayStore } from './store/gatewayStore';

/** A command for a device of this gateway. */
export interface DeliveredCommand {
  readonly executionId: string;
  /** The number of the attempt, from 1. It is more than 1 if an earlier attempt was proven not received. */
  readonly attempt: number;
  /** The id of the device on the connection. */
  readonly clientDeviceId: string;
  /** What to send to the device: JSON, or the bytes of the encoder. */
  readonly payload:
    { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  /** The LoRaWAN fPort, 1 to 223; undefined: none. */
  readonly fPort: number | undefined;
  /** Whether to request a confirmation from the device, if its protocol supports that. */
  readonly confirmed: boolean;
  /** The topic of the command; empty: none. */
  readonly topic: string;
}

/** The result of a delivery, as observed by the gateway. */
export interface DeliveryResult {
  /**
   * `accepted`: the device acknowledged the command. `rejected`: the device answered negatively. `failed`: the device
   * answered with an error. `no_answer`: delivery was attempted and the outcome is unknown. `unreachable`: certainly
   * nothing reached the device. `refused`: this gateway does not accept the command.
   */
  readonly result: 'accepted' | 'rejected' | 'failed' | 'no_answer' | 'unreachable' | 'refused';
  /** A code of the device or the gateway, at most 128 characters; longer codes are truncated. */
  readonly code?: string;
  /** A message of the device or the gateway, at most 2,000 characters; longer messages are truncated. */
  readonly message?: string;
  /** The time of the result by the clock of the gateway. Default: now. */
  readonly time?: Date;
}

/** The second argument of `deliver`. */
export interface Delivery {
  /**
   * Aborts when the execution has ended on the server (cancelled), when the delivery takes too long, and when the
   * gateway stops. Return the result that is known by then.
   */
  readonly signal: AbortSignal;
}

/** A message from a device. */
export interface GatewayUplink {
  /** The id of the device on the connection. */
  readonly clientDeviceId: string;
  /** Decoded values, or raw bytes for the device profile to decode; at most 64 KiB. */
  readonly payload:
    | { readonly kind: 'json'; readonly value: Readonly<Record<string, unknown>> }
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array };
  /** When the device sent it, by the clock of the gateway. Default: now. */
  readonly time?: Date;
  /** The LoRaWAN fPort of raw bytes, 0 to 255. */
  readonly fPort?: number;
  /** The id of the uplink, the same if the uplink is sent again: 1 to 64 characters. Default: a new UUID. */
  readonly uplinkId?: string;
}

/** The options of startGateway. */
export interface GatewayOptions extends ServerOptions {
  /** The id of the connection, whose connector type must be `gateway`. */
  readonly connectionId: string;
  /**
   * The id of this gateway, the same after every restart: 1 to 128 characters without white space. Default: the id in
   * the store, which creates one on first start.
   */
  readonly gatewayId?: string;
  /**
   * The name and version of your software, at most 128 characters. It is in the log of the server and in the status of
   * the connection, visible to everyone who may read connections.
   */
  readonly software?: string;
  /**
   * The store of commands and uplinks. `sqliteStore(file)` survives a restart and a power failure; `memoryStore()` does
   * not, and the server is informed of that.
   */
  readonly store: GatewayStore;
  /**
   * Delivers a command to its device. Called at most once per execution, never after its deadline, and one command at a
   * time per device. If it throws, the result is `no_answer`, because it is unknown what reached the device. A delivery
   * that takes longer than `deliveryTimeoutMs` is abandoned with `no_answer`, and the next command of the device
   * follows: stop when the signal aborts.
   */
  readonly deliver: (command: DeliveredCommand, delivery: Delivery) => Promise<DeliveryResult> | DeliveryResult;
  /**
   * A source of uplinks, read as fast as they can be stored. Single uplinks can also be sent with `send` of the
   * gateway. The end of the source has no effect. An invalid uplink is skipped with the event `uplink_rejected`. Up to
   * 256 uplinks that were read from the source may not be stored yet and are lost if the process is killed; `send`
   * resolves when an uplink is safe. If the source throws, the gateway shuts down gracefully and `ended` rejects with
   * `source_failed`.
   */
  readonly uplinks?: AsyncIterable<GatewayUplink>;
  /** Called for every event, for example to log it. Must not throw. */
  readonly onEvent?: (event: GatewayEvent) => void;
  /**
   * The maximum number of concurrent deliveries, 1 or more. Commands of the same device never run concurrently.
   * Default: 64. Set 1 if the devices share a bus.
   */
  readonly maxConcurrentDeliveries?: number;
  /**
   * The maximum duration of a delivery, in whole milliseconds, 1 to 2,147,483,647; after that, its result is
   * `no_answer`. Default: 60,000.
   */
  readonly deliveryTimeoutMs?: number;
  /**
   * The maximum number of stored uplinks that the server has not acknowledged, 1 or more. At the limit, `send` rejects
   * with `uplinks_full` and the source is not read. Default: 100,000.
   */
  readonly maxUplinks?: number;
  /**
   * The maximum total size of these uplinks in bytes, with the same effect as `maxUplinks`; a reading of five numbers
   * has about 160 bytes. The store may use this much memory or disk. Default: 268,435,456 (256 MiB).
   */
  readonly maxUplinkBytes?: number;
  /**
   * What to do if the server rejects the gateway permanently (key, connection): `retry` every minute, or `stop` with
   * the error. Default: `retry`.
   */
  readonly onRejected?: 'retry' | 'stop';
  /** False: confirm commands only by their results, without `command_received`. For testing how a server handles such gateways. Default: true. */
  readonly sendReceipts?: boolean;
  /**
   * Returns the pause before the next attempt in milliseconds, from the number of consecutive failed attempts before
   * the last one (0 after the first). Default, also if it throws or returns an invalid value: 1 s to 30 s with random
   * variation.
   */
  readonly backoffMs?: (failures: number) => number;
}

/** A running gateway. */
export interface Gateway {
  /**
   * Resolves when the gateway has stopped. Rejects with PlantroomError if `onRejected` is `stop` and the server
   * rejected the gateway permanently, and with GatewayError if the store is corrupt (`store_corrupt`) or the source of
   * uplinks threw (`source_failed`). Handling it is optional.
   */
  readonly ended: Promise<void>;
  /** The id of the gateway on the server. */
  readonly gatewayId: string;
  /**
   * Stores an uplink. Resolves when it is in the store (on disk if the store is durable); from then on it will reach
   * the server. Rejects with GatewayError.
   */
  send(uplink: GatewayUplink): Promise<{ readonly uplinkId: string }>;
  /**
   * Shuts down gracefully: accepts nothing new, waits at most `graceMs` milliseconds for running deliveries (default
   * 5,000; Infinity: 24 days, which is the maximum), and closes the store. Rejects with GatewayError `options_invalid`
   * if `graceMs` is not a number of 0 or more.
   */
  stop(graceMs?: number): Promise<void>;
}
