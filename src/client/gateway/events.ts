import type { PlantroomError } from '../plantroomError';

/** A command that came, as an event shows it. */
interface CommandShown {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly attempt: number;
  /** As in DeliveredCommand; undefined: it came without one. */
  readonly payload: { readonly kind: 'json'; readonly value: unknown } | { readonly kind: 'bytes'; readonly bytes: Uint8Array } | undefined;
  /** LoRaWAN fPort, 1 to 223. */
  readonly fPort: number | undefined;
}

/** What a gateway did or saw. Times are the gateway's clock. */
export type GatewayEvent =
  | { readonly event: 'attached'; readonly gatewayId: string; readonly connectionId: string; readonly maxInFlight: number; readonly protocolVersion: number; readonly serverVersion: string }
  /** `error` undefined: it ended in peace. */
  | { readonly event: 'detached'; readonly error: PlantroomError | undefined; readonly retryInMs: number }
  /** The server will not take it as it is: key, connection, protocol version. A person must act. */
  | { readonly event: 'refused'; readonly error: PlantroomError; readonly retryInMs: number | undefined }
  | ({ readonly event: 'command_taken' } & CommandShown)
  /** It is known already and is not done again. */
  | ({ readonly event: 'command_repeated' } & CommandShown)
  | { readonly event: 'command_withdrawn'; readonly executionId: string }
  | { readonly event: 'command_answered'; readonly executionId: string; readonly result: string; readonly code: string; readonly message: string }
  /** The callback answered after its time was over, when the command had been told as `no_answer`: its answer is told to nobody else. */
  | { readonly event: 'delivery_too_late'; readonly executionId: string; readonly result: string; readonly code: string; readonly message: string }
  | { readonly event: 'command_acknowledged'; readonly executionId: string; readonly outcome: string }
  | { readonly event: 'uplink_sent'; readonly uplinkId: string; readonly clientDeviceId: string }
  | { readonly event: 'uplink_acknowledged'; readonly uplinkId: string; readonly outcome: 'stored' | 'duplicate' | 'rejected'; readonly reason: string }
  /** An uplink of the source that the server would not take, or one of an earlier start that the store does not have whole any more (`clientDeviceId` empty): it is left out. */
  | { readonly event: 'uplink_refused'; readonly clientDeviceId: string; readonly message: string }
  /** The source of uplinks threw: the gateway stops. */
  | { readonly event: 'source_failed'; readonly message: string }
  /** The store does not take anything in: it is tried again. */
  | { readonly event: 'store_failing'; readonly message: string }
  | { readonly event: 'store_recovered' };
