import { evictOldest } from '../kernel/evictOldest';
import type { Device } from './device';
import type { DeviceRepository } from './deviceRepository';

// About 6 kB each, including the encoded message.
const MAX_CACHED_DEVICES = 2000;

/**
 * Caches devices as last read. Every change increments the revision, and an uplink sets the last-seen time; a device
 * with both unchanged is unchanged. Reading these two values costs a third of reading the device.
 */
export class DeviceCache {
  private readonly cache = new Map<string, Device>();

  constructor(private readonly devices: DeviceRepository) {}

  /** Returns the current device; the same object as before if it did not change. Throws `device_not_found`. */
  async get(organizationId: string, id: string): Promise<Device> {
    const cached = this.cache.get(id);
    if (cached?.organizationId === organizationId && (await this.devices.isUnchanged(organizationId, id, cached)))
      return cached;
    const device = await this.devices.get(organizationId, id);
    this.cache.delete(device.id); // added again as the newest entry
    evictOldest(this.cache, MAX_CACHED_DEVICES);
    this.cache.set(device.id, device);
    return device;
  }
}
