import type { DeviceHooks } from '../../src/devices/deviceHooks';

/** The hooks of devices that nothing uses. */
export const noDeviceHooks: DeviceHooks = {
  onBindingRemoved: async () => {},
  onDeviceDeleted: async () => {},
  findSensorUses: async () => [],
  countDeviceDashboards: async () => 0,
  countSensorDashboards: async () => 0,
};
