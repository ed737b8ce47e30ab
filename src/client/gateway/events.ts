import type { PlantroomError } from '../plantroomError';

/** What a gateway did or saw. Times are the gateway's clock. */
export type GatewayEvent =
  | { readonly event: 'attached'; readonly gatewayId: string; readonly connectionId: string; readonly maxInFlight: number; readonly protocolVersion: number; readonly serverVersion: string }
  /** `error` undefined: it ended in peace. */
  | { readonly event: 'detached'; readonly error: PlantroomError | undefined; readonly retryInMs: number }
  /** The server will not take it as it is: key, connection, protocol version. A person must act. */
  | { readonly event: 'refused'; readonly error: PlantroomError; readonly retryInMs: number | undefined }
  | { readonly event: 'command_taken'; readonly executionId: string; readonly clientDeviceId: string; readonly attempt: number }
  /** It is known already and is not done again. */
  | { readonly event: 'command_repeated'; readonly executionId: string; readonly attempt: number }
  | { readonly event: 'command_withdrawn'; readonly executionId: string }
  | { readonly event: 'command_answered'; readonly executionId: string; readonly result: string; readonly code: string; readonly message: string }
  | { readonly event: 'command_acknowledged'; readonly executionId: string; readonly outcome: string }
  | { readonly event: 'uplink_sent'; readonly uplinkId: string; readonly clientDeviceId: string }
  | { readonly event: 'uplink_acknowledged'; readonly uplinkId: string; readonly outcome: 'stored' | 'duplicate' | 'rejected'; readonly reason: string }
  /** The store does not take anything in: it is tried again. */
  | { readonly event: 'store_failing'; readonly message: string }
  | { readonly event: 'store_recovered' };
