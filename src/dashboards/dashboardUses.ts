import type { Db } from '../database';
import { SiteRepository } from './siteRepository';
import { WidgetRepository } from './widgetRepository';

/** Counts the dashboards with a widget that shows one of these sensors, which still exist. */
export async function countSensorDashboards(
  db: Db,
  organizationId: string,
  sensorIds: readonly string[],
): Promise<number> {
  const sensors = await new SiteRepository(db).findSensors(organizationId, sensorIds);
  return await new WidgetRepository(db).countShowingSensors(organizationId, sensors);
}

/** Counts the dashboards that show the device or one of its sensors, or have it as the value of a variable. */
export async function countDeviceDashboards(db: Db, organizationId: string, deviceId: string): Promise<number> {
  return await new WidgetRepository(db).countShowingDevice(organizationId, deviceId);
}
