import type { Db } from '../database';
import type { SensorUse } from './device';

/**
 * Hooks for modules that depend on devices; the composition root (server) passes them in. Each runs inside the
 * transaction of the change, on `db`.
 */
export interface DeviceHooks {
  /**
   * Called after the binding of a device was removed: it is unbound, or about to be bound to another physical device.
   */
  onBindingRemoved(db: Db, organizationId: string, deviceId: string): Promise<void>;
  /** Called before the device is deleted. */
  onDeviceDeleted(db: Db, organizationId: string, deviceId: string): Promise<void>;
  /** Returns the commands that expect a state of one of these sensors. */
  findSensorUses(db: Db, organizationId: string, sensorIds: readonly string[]): Promise<readonly SensorUse[]>;
  /** Counts the dashboards that show the device or one of its sensors. Called before the device is deleted. */
  countDeviceDashboards(db: Db, organizationId: string, deviceId: string): Promise<number>;
  /** Counts the dashboards that show one of these sensors. Called before the sensors are deleted. */
  countSensorDashboards(db: Db, organizationId: string, sensorIds: readonly string[]): Promise<number>;
}
