import type { Device } from './device';
import type { DeviceRepository } from './deviceRepository';

// About 6 kB each with what they are encoded to.
const MOST_KEPT = 2000;

/**
 * Devices as they were last read. Every change of a device counts its revision, and an uplink sets when it was last seen; so one with the
 * same of both is the same, and reading these two is a third of the work.
 */
export class DeviceReads {
  private readonly kept = new Map<string, Device>();

  constructor(private readonly devices: DeviceRepository) {}

  /** The device as it is now; the same object as before where it did not change. Throws `device_not_found`. */
  async get(organizationId: string, id: string): Promise<Device> {
    const known = this.kept.get(id);
    if (known?.organizationId === organizationId && (await this.devices.isAt(organizationId, id, known))) return known;
    const device = await this.devices.get(organizationId, id);
    this.keep(device);
    return device;
  }

  private keep(device: Device): void {
    this.kept.delete(device.id);
    this.kept.set(device.id, device);
    const [oldest] = this.kept.keys();
    if (this.kept.size > MOST_KEPT && oldest !== undefined) this.kept.delete(oldest);
  }
}
