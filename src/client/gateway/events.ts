import type { PlantroomError } from '../plantroomError';

/** A received command, as shown in events. */
interface CommandSummary {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly attempt: number;
  /** Same as in DeliveredCommand; undefined: the command has no payload. */
  readonly payload:
    | { readonly kind: 'json'; readonly value: unknown }
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
    | undefined;
  /** The LoRaWAN fPort, 1 to 223; undefined: none. */
  readonly fPort: number | undefined;
}

/** An event of a gateway. Times are by the clock of the gateway. */
export type GatewayEvent =
  | {
      readonly event: 'attached';
      readonly gatewayId: string;
      readonly connectionId: string;
      readonly maxInFlight: number;
      readonly protocolVersion: number;
      readonly serverVersion: string;
    }
  /** The stream ended. `error` is undefined if it ended normally. */
  | { readonly event: 'detached'; readonly error: PlantroomError | undefined; readonly retryInMs: number }
  /**
   * The server rejects the gateway because of its key, connection or protocol version. An operator must fix this.
   * `retryInMs` is undefined if the gateway stops.
   */
  | { readonly event: 'refused'; readonly error: PlantroomError; readonly retryInMs: number | undefined }
  | ({ readonly event: 'command_taken' } & CommandSummary)
  /** The command is already known and is not executed again. */
  | ({ readonly event: 'command_repeated' } & CommandSummary)
  | { readonly event: 'command_cancelled'; readonly executionId: string }
  | {
      readonly event: 'command_answered';
      readonly executionId: string;
      readonly result: string;
      readonly code: string;
      readonly message: string;
    }
  /**
   * The delivery returned a result after its timeout, when the result `no_answer` was already recorded. The late result
   * is only reported in this event.
   */
  | {
      readonly event: 'delivery_too_late';
      readonly executionId: string;
      readonly result: string;
      readonly code: string;
      readonly message: string;
    }
  /**
   * `outcome` is `applied`, `late`, `unknown` or `rejected`; if it is `rejected`, `reason` says what is wrong with the
   * result.
   */
  | {
      readonly event: 'command_acknowledged';
      readonly executionId: string;
      readonly outcome: string;
      readonly reason?: string;
    }
  /** The server rejected a message about an execution that has no result yet. */
  | { readonly event: 'message_rejected'; readonly executionId: string; readonly reason: string }
  | { readonly event: 'uplink_sent'; readonly uplinkId: string; readonly clientDeviceId: string }
  | {
      readonly event: 'uplink_acknowledged';
      readonly uplinkId: string;
      readonly outcome: 'stored' | 'duplicate' | 'rejected';
      readonly reason: string;
    }
  /**
   * An uplink was discarded: it is from the source and invalid, or was not stored before the gateway stopped; or it is
   * from an earlier start and corrupt in the store (`clientDeviceId` is empty).
   */
  | { readonly event: 'uplink_rejected'; readonly clientDeviceId: string; readonly message: string }
  /** The source of uplinks threw, and the gateway stops. */
  | { readonly event: 'source_failed'; readonly message: string }
  /** The store rejects writes. They are retried. */
  | { readonly event: 'store_failing'; readonly message: string }
  | { readonly event: 'store_recovered' };
