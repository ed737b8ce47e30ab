import type { Db } from '../database';
import type { SensorUse } from './device';

/** What higher rooms do when a device changes; app.ts hands it down. Each runs inside the transaction of the change, on `db`. */
export interface DeviceHooks {
  /** The device is bound to another physical device than before, or to none. */
  onBindingChanged(db: Db, organizationId: string, deviceId: string): Promise<void>;
  /** The device is about to be deleted. */
  onDeviceDeleted(db: Db, organizationId: string, deviceId: string): Promise<void>;
  /** Which commands expect a state of one of these sensors. */
  sensorsInUse(db: Db, organizationId: string, sensorIds: readonly string[]): Promise<readonly SensorUse[]>;
}
