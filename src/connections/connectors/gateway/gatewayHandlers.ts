import type { GatewayServiceServer } from '../../../gen/gateway/v1/gateway_service';
import type { HandlersOf } from '../../../rpc/handlers';
import type { GatewayConnector } from './gatewayConnector';

/** Where gateway software attaches. */
export function gatewayHandlers(gateway: GatewayConnector): HandlersOf<GatewayServiceServer> {
  return {
    attach: async (stream, context) => await gateway.attach(stream, context),
  };
}
