import { checkGatewayOptions } from './gatewayOptions';
import type { Gateway, GatewayOptions } from './options';
import { RunningGateway } from './runningGateway';

/**
 * Starts a gateway: opens its store, goes on with what an earlier start left, attaches, and stays attached until it is stopped. Throws GatewayError:
 * `options_invalid`, and what the opening of the store says.
 */
export function startGateway(options: GatewayOptions): Gateway {
  checkGatewayOptions(options);
  const { gatewayId } = options.store.open({ connectionId: options.connectionId, gatewayId: options.gatewayId });
  try {
    return new RunningGateway(options, gatewayId);
  } catch (error) {
    options.store.close(); // it could not be read
    throw error;
  }
}
