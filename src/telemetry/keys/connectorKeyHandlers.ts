import type { DigitalDeviceServiceServer } from '../../gen/digitaldevice/v2/digital_device_service';
import type { HandlersOf } from '../../rpc/handlers';
import type { ConnectorKeyService } from './connectorKeyService';

/** What this room answers of DigitalDeviceService. */
export type ConnectorKeyHandlers = Pick<HandlersOf<DigitalDeviceServiceServer>, 'getConnectorKeys'>;

/** The paths last seen of a physical device. */
export function connectorKeyHandlers(keys: ConnectorKeyService): ConnectorKeyHandlers {
  return {
    getConnectorKeys: async (request, context) => {
      const source = { connectionId: request.connectionId, clientDeviceId: request.clientDeviceId };
      const found = await keys.list(context.organizationId, request.id, source, context.principal.reach?.devices);
      return { connectorKeys: found.map(({ name, sampledAt, value }) => ({ name, timestamp: sampledAt, value: { value } })) };
    },
  };
}
