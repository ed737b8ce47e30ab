import type { ConnectionServiceServer } from '../../gen/connection/connection_service';
import { toTimestamp } from '../../kernel/timestamps';
import type { HandlersOf } from '../../rpc/handlers';
import type { DiscoveredDeviceService } from './discoveredDeviceService';

/** What this room answers of ConnectionService. */
export type DiscoveredDeviceHandlers = Pick<HandlersOf<ConnectionServiceServer>, 'listDiscoveredDevices'>;

/** The devices of a connection that nobody has bound yet. */
export function discoveredDeviceHandlers(discovered: DiscoveredDeviceService): DiscoveredDeviceHandlers {
  return {
    listDiscoveredDevices: async (request, context) => {
      const { devices, nextPageToken } = await discovered.list(context.organizationId, request.id, request.pageSize, request.pageToken);
      return { discoveredDevices: devices.map((device) => ({ ...device, firstSeen: toTimestamp(device.firstSeen), lastSeen: toTimestamp(device.lastSeen) })), nextPageToken };
    },
  };
}
