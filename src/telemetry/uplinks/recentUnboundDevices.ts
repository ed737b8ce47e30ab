import type { Source } from '../keys/connectorKeyRepository';

/**
 * Remembers per connection which unbound physical devices sent uplinks most recently since the server started. The
 * number per connection is limited, because a sender can invent any number of devices.
 */
export class RecentUnboundDevices {
  // The devices of a connection are ordered by their last uplink, the least recent one first.
  private readonly devicesByConnection = new Map<string, Set<string>>();

  /** `maxDevices`: the maximum number of devices per connection. */
  constructor(private readonly maxDevices: number) {}

  /** Records an uplink. Returns the least recent device if it was evicted because of the limit. */
  add({ connectionId, clientDeviceId }: Source): Source | undefined {
    const devices = this.devicesByConnection.get(connectionId) ?? new Set<string>();
    this.devicesByConnection.set(connectionId, devices);
    devices.delete(clientDeviceId); // moves it to the end, so that the least recent device is first
    devices.add(clientDeviceId);
    const [oldest] = devices;
    if (devices.size <= this.maxDevices || oldest === undefined) return undefined;
    devices.delete(oldest);
    return { connectionId, clientDeviceId: oldest };
  }

  /** Removes a device that is now bound. */
  remove({ connectionId, clientDeviceId }: Source): void {
    this.devicesByConnection.get(connectionId)?.delete(clientDeviceId);
  }

  /** Removes all devices of a deleted connection. */
  removeConnection(connectionId: string): void {
    this.devicesByConnection.delete(connectionId);
  }
}
