import { checkGatewayOptions } from './gatewayOptions';
import type { Gateway, GatewayOptions } from './options';
import { RunningGateway } from './runningGateway';

/**
 * Starts a gateway: opens its store, continues the work of an earlier start, connects to the server, and stays
 * connected until it is stopped. Throws GatewayError `options_invalid`, and the errors of opening the store.
 */
export function startGateway(options: GatewayOptions): Gateway {
  checkGatewayOptions(options);
  const { gatewayId } = options.store.open({ connectionId: options.connectionId, gatewayId: options.gatewayId });
  try {
    return new RunningGateway(options, gatewayId);
  } catch (error) {
    options.store.close(); // The store could not be read.
    throw error;
  }
}
