import { toStoredContent } from './content';
import { listReferences } from './contentReferences';
import type { DashboardContent, SeriesRef, Viewer, WidgetInput } from './dashboard';
import { loadViewable } from './dashboardAccess';
import { convertDevices, listUsedKeys, type DashboardDocument, type DocumentDevice } from './dashboardDocument';
import type { DashboardRepositories } from './dashboardRepositories';
import type { SiteDevice, SiteSensor } from './siteRepository';

/** What a document says instead of a device that was deleted. */
const DELETED_DEVICE = 'deleted device';
/** What a document says instead of the key of a sensor that was deleted. */
const UNKNOWN_KEY = 'unknown';

/** Returns a document of a dashboard, without ids. Throws `dashboard_not_found`. */
export async function exportDashboard(
  repos: DashboardRepositories,
  viewer: Viewer,
  id: string,
): Promise<DashboardDocument> {
  const { dashboard, content } = await loadViewable(repos, viewer, id);
  const sensorIds = content.widgets.flatMap(({ series }) => series.map(({ sensorId }) => sensorId));
  const sensors = await repos.site.findSensors(viewer.organizationId, [...new Set(sensorIds)]);
  const contentOfDevices = replaceSensors(toStoredContent(content), sensors);
  // In the order of their first use. The content has no sensors any more, so all references are devices.
  const deviceIds = [...new Set(listReferences(contentOfDevices, '').map((reference) => reference.id))];
  const found = await repos.site.findDevices(viewer.organizationId, deviceIds);
  const deviceById = new Map(found.map((device) => [device.id, device]));
  const devices = deviceIds.flatMap((deviceId) => deviceById.get(deviceId) ?? []);
  const refById = new Map(devices.map((device, index) => [device.id, `device${index + 1}`]));
  const converted = convertDevices(contentOfDevices, ({ deviceId, missingDevice }) => {
    const ref = refById.get(deviceId);
    return ref === undefined
      ? { deviceId: '', missingDevice: missingDevice || DELETED_DEVICE }
      : { deviceId: ref, missingDevice: '' };
  });
  return {
    name: dashboard.name,
    description: dashboard.description,
    content: numberWidgets(converted),
    devices: describeDevices(devices, refById, converted),
  };
}

/** Replaces sensors by their device and key. */
function replaceSensors(
  content: DashboardContent<WidgetInput>,
  sensors: readonly SiteSensor[],
): DashboardContent<WidgetInput> {
  const sensorById = new Map(sensors.map((sensor) => [sensor.sensorId, sensor]));
  const replaceSensor = (series: SeriesRef): SeriesRef => {
    if (series.sensorId === '') return series;
    const sensor = sensorById.get(series.sensorId);
    return sensor
      ? { ...series, sensorId: '', deviceId: sensor.deviceId, keyName: sensor.keyName }
      : { ...series, sensorId: '', missingDevice: DELETED_DEVICE, keyName: UNKNOWN_KEY };
  };
  return {
    ...content,
    widgets: content.widgets.map((widget) => ({ ...widget, series: widget.series.map(replaceSensor) })),
  };
}

/** Replaces the ids of widgets by numbers. Widgets and layout have the same order. */
function numberWidgets({ widgets, layout, ...frame }: DashboardContent<WidgetInput>): DashboardContent<WidgetInput> {
  return {
    ...frame,
    widgets: widgets.map((widget, index) => ({ ...widget, id: String(index + 1) })),
    layout: layout.map((place, index) => ({ ...place, widgetId: String(index + 1) })),
  };
}

/** Describes devices for another site, with the keys that the content of the document uses of them. */
function describeDevices(
  devices: readonly SiteDevice[],
  refById: ReadonlyMap<string, string>,
  content: DashboardContent<WidgetInput>,
): DocumentDevice[] {
  const usedKeys = Map.groupBy(listUsedKeys(content), ({ device }) => device.deviceId);
  return devices.map(({ id, name, clientDeviceId }) => {
    const ref = refById.get(id) as string;
    const keyNames = new Set(usedKeys.get(ref)?.map(({ keyName }) => keyName));
    return { ref, name, clientDeviceId: clientDeviceId ?? '', keyNames: [...keyNames].toSorted() };
  });
}
