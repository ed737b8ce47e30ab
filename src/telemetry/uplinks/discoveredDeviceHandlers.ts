import type { ConnectionServiceServer } from '../../gen/connection/connection_service';
import { toTimestamp } from '../../kernel/timestamps';
import type { HandlersOf } from '../../api/pipeline/handlers';
import type { DiscoveredDeviceService } from './discoveredDeviceService';

/** The methods of ConnectionService that this module implements. */
type DiscoveredDeviceHandlers = Pick<HandlersOf<ConnectionServiceServer>, 'listDiscoveredDevices'>;

/** Handlers for discovered devices: physical devices that sent uplinks and are not bound. */
export function discoveredDeviceHandlers(discovered: DiscoveredDeviceService): DiscoveredDeviceHandlers {
  return {
    listDiscoveredDevices: async (request, context) => {
      const { id: connectionId, pageSize, pageToken } = request;
      const { devices, nextPageToken } = await discovered.list(
        context.organizationId,
        connectionId,
        pageSize,
        pageToken,
      );
      return {
        discoveredDevices: devices.map((device) => ({
          ...device,
          firstSeen: toTimestamp(device.firstSeen),
          lastSeen: toTimestamp(device.lastSeen),
        })),
        nextPageToken,
      };
    },
  };
}
