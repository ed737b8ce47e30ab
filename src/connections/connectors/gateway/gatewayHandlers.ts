import type { AttachRequest, AttachResponse, GatewayServiceServer } from '../../../gen/gateway/v1/gateway_service';
import type { BidiHandler, HandlersOf } from '../../../api/pipeline/handlers';
import type { GatewayConnector } from './gatewayConnector';
import { noteInvalid } from './invalidMessages';

/** Handlers for the attachment of gateway software. */
export function gatewayHandlers(gateway: GatewayConnector): HandlersOf<GatewayServiceServer> {
  const attach: BidiHandler<AttachRequest, AttachResponse> = async (stream, context) => {
    await gateway.attach(stream, context);
  };
  attach.noteInvalid = noteInvalid; // called for each message of the stream that fails validation
  return { attach };
}
