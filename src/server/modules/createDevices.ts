import { findSensorUses } from '../../commands';
import { DeviceService, digitalDeviceHandlers, SensorService } from '../../devices';
import { countDeviceDashboards, countSensorDashboards } from '../../dashboards';
import type { Cursors } from '../../kernel/pages';
import type { Foundation } from '../foundation';
import type { MediaModule } from './createMedia';

/** Creates the devices module. `hooks` end the executions of deleted and rebound devices. */
export function createDevices(
  { database, clock }: Foundation,
  cursors: Cursors,
  mediaLinks: MediaModule['links'],
  hooks: Pick<ConstructorParameters<typeof DeviceService>[0]['hooks'], 'onBindingRemoved' | 'onDeviceDeleted'>,
) {
  const deviceHooks = { ...hooks, findSensorUses, countDeviceDashboards, countSensorDashboards };
  const sensors = new SensorService({ database, clock, hooks: deviceHooks });
  const devices = new DeviceService({ database, clock, cursors, hooks: deviceHooks });
  return { devices, sensors, handlers: digitalDeviceHandlers(devices, sensors, mediaLinks) };
}
