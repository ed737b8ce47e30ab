import type { DigitalDeviceServiceServer } from '../../gen/digitaldevice/v2/digital_device_service';
import type { HandlersOf } from '../../api/pipeline/handlers';
import type { ConnectorKeyService } from './connectorKeyService';

/** The methods of DigitalDeviceService that this module implements. */
type ConnectorKeyHandlers = Pick<HandlersOf<DigitalDeviceServiceServer>, 'getConnectorKeys'>;

/** Handlers for connector keys: the source paths that a physical device has sent. */
export function connectorKeyHandlers(keys: ConnectorKeyService): ConnectorKeyHandlers {
  return {
    getConnectorKeys: async (request, context) => {
      const source = { connectionId: request.connectionId, clientDeviceId: request.clientDeviceId };
      const found = await keys.list(
        context.organizationId,
        request.id,
        source,
        context.principal.resourceScope?.devices,
      );
      return {
        connectorKeys: found.map(({ name, sampledAt, value }) => ({ name, timestamp: sampledAt, value: { value } })),
      };
    },
  };
}
