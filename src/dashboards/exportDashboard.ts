import { toStoredContent } from './content';
import { getOptionDeviceIds } from './contentReferences';
import type { DashboardContent, SeriesRef, Viewer, WidgetInput } from './dashboard';
import { loadViewable } from './dashboardAccess';
import { convertDevices, type DashboardDocument, type DocumentDevice } from './dashboardDocument';
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
  const sensorById = new Map(sensors.map((sensor) => [sensor.sensorId, sensor]));
  const deviceIds = listDeviceIds(content, sensorById);
  const found = await repos.site.findDevices(viewer.organizationId, deviceIds);
  const deviceById = new Map(found.map((device) => [device.id, device]));
  const devices = new DocumentDevices(deviceIds.flatMap((deviceId) => deviceById.get(deviceId) ?? []));
  const converted = convertDevices(toStoredContent(content), {
    series: (series) => exportSeries(series, sensorById, devices),
    device: (deviceId) => devices.findRef(deviceId),
  });
  return {
    name: dashboard.name,
    description: dashboard.description,
    content: numberWidgets(converted),
    devices: devices.list(),
  };
}

/** Returns the ids of the devices that the content names, in the order of their first use. */
function listDeviceIds(
  { widgets, variables }: DashboardContent<WidgetInput>,
  sensorById: ReadonlyMap<string, SiteSensor>,
): string[] {
  const ids = [
    ...widgets.flatMap(({ series, options }) => [
      ...series.map(({ sensorId, deviceId }) => sensorById.get(sensorId)?.deviceId ?? deviceId),
      ...getOptionDeviceIds(options),
    ]),
    ...variables.filter(({ kind }) => kind === 'device').map(({ value }) => value),
  ];
  return [...new Set(ids.filter((id) => id !== ''))];
}

function exportSeries(
  series: SeriesRef,
  sensorById: ReadonlyMap<string, SiteSensor>,
  devices: DocumentDevices,
): SeriesRef {
  if (series.sensorId === '' && series.deviceId === '') return series;
  const sensor = sensorById.get(series.sensorId);
  const keyName = series.sensorId === '' ? series.keyName : (sensor?.keyName ?? UNKNOWN_KEY);
  const ref = devices.findRef(sensor?.deviceId ?? series.deviceId, keyName);
  return ref === undefined
    ? { ...series, sensorId: '', deviceId: '', missingDevice: DELETED_DEVICE, keyName }
    : { ...series, sensorId: '', deviceId: ref, keyName };
}

/** Replaces the ids of widgets by numbers. Widgets and layout have the same order. */
function numberWidgets({ widgets, layout, ...frame }: DashboardContent<WidgetInput>): DashboardContent<WidgetInput> {
  return {
    ...frame,
    widgets: widgets.map((widget, index) => ({ ...widget, id: String(index + 1) })),
    layout: layout.map((place, index) => ({ ...place, widgetId: String(index + 1) })),
  };
}

/** The devices of a document, and the keys that its widgets use of them. */
class DocumentDevices {
  private readonly refById: ReadonlyMap<string, string>;
  private readonly keyNamesById = new Map<string, Set<string>>();

  constructor(private readonly devices: readonly SiteDevice[]) {
    this.refById = new Map(devices.map(({ id }, index) => [id, `device${index + 1}`]));
  }

  /** Returns the ref of a device, and notes the key that is used of it; undefined for a deleted device. */
  findRef(deviceId: string, keyName?: string): string | undefined {
    const keyNames = this.keyNamesById.get(deviceId) ?? new Set();
    if (keyName !== undefined) this.keyNamesById.set(deviceId, keyNames.add(keyName));
    return this.refById.get(deviceId);
  }

  list(): DocumentDevice[] {
    return this.devices.map(({ id, name, clientDeviceId }) => ({
      ref: this.refById.get(id) ?? '',
      name,
      clientDeviceId: clientDeviceId ?? '',
      keyNames: [...(this.keyNamesById.get(id) ?? [])].toSorted(),
    }));
  }
}
