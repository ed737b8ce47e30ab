/** Why a gateway could not do something by itself; what the server says is a PlantroomError. */
export type GatewayErrorReason = 'store_in_use' | 'store_damaged' | 'store_of_another' | 'store_unusable' | 'store_full' | 'store_failed' | 'uplinks_full' | 'uplink_invalid' | 'source_failed' | 'options_invalid' | 'stopped';

/** A failure of the gateway itself. */
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
