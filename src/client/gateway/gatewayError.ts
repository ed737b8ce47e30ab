/** The reasons of errors of the gateway itself. Errors of the server are PlantroomErrors. */
export type GatewayErrorReason =
  | 'store_in_use'
  | 'store_corrupt'
  | 'store_of_another'
  | 'store_unusable'
  | 'store_full'
  | 'store_failed'
  | 'uplinks_full'
  | 'uplink_invalid'
  | 'source_failed'
  | 'options_invalid'
  | 'stopped';

/** An error of the gateway itself. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';

  constructor(
    readonly reason: GatewayErrorReason,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
