import { EMPTY_CONTENT } from './content';
import {
  GRID_COLUMNS,
  type DashboardContent,
  type DashboardVariable,
  type SeriesRef,
  type WidgetInput,
  type WidgetPlace,
} from './dashboard';
import type { SiteDevice, SiteSensor } from './siteRepository';

/** The sensors of some devices. */
export interface SiteExcerpt {
  readonly devices: readonly SiteDevice[];
  readonly sensors: readonly SiteSensor[];
}

type NewWidget = Omit<WidgetInput, 'id'>;

/** The most charts, and the most keys of a device model. */
const MAX_GROUPS = 8;
const MAX_SERIES = 10;
const HALF_WIDTH = GRID_COLUMNS / 2;
const CHART_HEIGHT = 6;
const VARIABLE = 'device';
/** Keys that say little about a site; they come last. */
const TECHNICAL_KEYS: ReadonlySet<string> = new Set([
  'rssi',
  'snr',
  'uptime',
  'firmware_version',
  'error_code',
  'latitude',
  'longitude',
  'altitude',
  'battery_voltage',
]);

/** Creates the content of the overview of a site. */
export function createOverviewContent(site: SiteExcerpt): DashboardContent<WidgetInput> {
  return arrange([
    { widget: createWidget('connections', 'Connections'), width: HALF_WIDTH, height: 5 },
    { widget: createWidget('executions', 'Latest executions', { limit: 10 }), width: HALF_WIDTH, height: 5 },
    ...createCharts(site),
  ]);
}

/** Creates the content of the dashboard of a connection. */
export function createConnectionContent(connectionName: string, site: SiteExcerpt): DashboardContent<WidgetInput> {
  const options = { connectionNames: [connectionName] };
  return arrange([
    { widget: createWidget('connections', 'Status', options), width: GRID_COLUMNS, height: 3 },
    ...createCharts(site),
  ]);
}

/** Creates the content of the dashboard of a device model, for the device that the viewer chooses. */
export function createModelContent(site: SiteExcerpt): DashboardContent<WidgetInput> {
  const groupsByKey = Map.groupBy(rankGroups(site.sensors), ({ keyName }) => keyName);
  const keys = [...groupsByKey].slice(0, MAX_GROUPS);
  const toSeries = (keyName: string): SeriesRef => ({ ...EMPTY_SERIES, deviceVariable: VARIABLE, keyName });
  const latest = createWidget(
    'latest',
    'Latest values',
    {},
    keys.map(([keyName]) => toSeries(keyName)),
  );
  const charts = keys.flatMap(([keyName, groups]) => {
    const group = groups.find(hasChart);
    return group ? [{ widget: createChart(group, [toSeries(keyName)]), width: HALF_WIDTH, height: CHART_HEIGHT }] : [];
  });
  const executions = createWidget('executions', 'Latest executions', { deviceVariable: VARIABLE, limit: 10 });
  const tiles = [
    { widget: latest, width: HALF_WIDTH, height: 5 },
    { widget: executions, width: HALF_WIDTH, height: 5 },
    ...charts,
  ];
  return arrange(tiles, [createDeviceVariable(site, new Set(keys.map(([keyName]) => keyName)))]);
}

/** The variable offers the devices that have all of these keys which the devices of the model share. */
function createDeviceVariable({ devices, sensors }: SiteExcerpt, keys: ReadonlySet<string>): DashboardVariable {
  const sensorsByKey = Map.groupBy(sensors, ({ keyName }) => keyName);
  const sharedKeys = [...keys].filter(
    (keyName) => new Set(sensorsByKey.get(keyName)?.map(({ deviceId }) => deviceId)).size === devices.length,
  );
  const value = devices[0]?.id ?? '';
  return { name: VARIABLE, label: 'Device', kind: 'device', keyNames: sharedKeys, choices: [], value };
}

/** Creates a chart for each of the most common groups of sensors. */
function createCharts({ devices, sensors }: SiteExcerpt): Tile[] {
  const nameById = new Map(devices.map(({ id, name }) => [id, name]));
  const groups = rankGroups(sensors).filter(hasChart).slice(0, MAX_GROUPS);
  return groups.map((group) => {
    const series = group.sensors
      .slice(0, MAX_SERIES)
      .map(({ sensorId, deviceId }) => ({ ...EMPTY_SERIES, sensorId, label: nameById.get(deviceId) ?? '' }));
    return { widget: createChart(group, series), width: HALF_WIDTH, height: CHART_HEIGHT };
  });
}

/** Sensors whose values fit into one chart: they have the same key, value type and unit. */
interface SensorGroup extends Pick<SiteSensor, 'keyName' | 'valueType' | 'unit'> {
  readonly sensors: readonly SiteSensor[];
}

/** Whether a chart can show the values of a group. */
function hasChart({ valueType }: SensorGroup): boolean {
  return valueType !== 'json';
}

/** Creates the widget that fits a group of sensors. */
function createChart({ keyName, valueType, unit }: SensorGroup, series: readonly SeriesRef[]): NewWidget {
  const title = toTitle(keyName);
  if (valueType === 'boolean' || valueType === 'string') return createWidget('state_timeline', title, {}, series);
  if (unit === '%' && series.length === 1) return createWidget('gauge', title, { min: 0, max: 100 }, series);
  return createWidget('time_series', title, unit === '%' ? { min: 0, max: 100 } : {}, series);
}

/** Groups sensors: the largest groups first, those with technical keys last. */
function rankGroups(sensors: readonly SiteSensor[]): SensorGroup[] {
  const groups = Map.groupBy(sensors, ({ keyName, valueType, unit }) => JSON.stringify([keyName, valueType, unit]));
  return [...groups.values()]
    .map((group) => {
      const { keyName, valueType, unit } = group[0] as SiteSensor;
      return { keyName, valueType, unit, sensors: group };
    })
    .toSorted(
      (a, b) =>
        Number(TECHNICAL_KEYS.has(a.keyName)) - Number(TECHNICAL_KEYS.has(b.keyName)) ||
        b.sensors.length - a.sensors.length ||
        a.keyName.localeCompare(b.keyName, 'en'),
    );
}

/** A widget and its size. */
interface Tile {
  readonly widget: NewWidget;
  readonly width: number;
  readonly height: number;
}

/** Arranges widgets from left to right in rows. */
function arrange(tiles: readonly Tile[], variables: readonly DashboardVariable[] = []): DashboardContent<WidgetInput> {
  let [column, row, rowHeight] = [0, 0, 0];
  const layout: WidgetPlace[] = tiles.map(({ width, height }, index) => {
    if (column + width > GRID_COLUMNS) [column, row, rowHeight] = [0, row + rowHeight, 0];
    const place = { widgetId: String(index + 1), column, row, width, height };
    column += width;
    rowHeight = Math.max(rowHeight, height);
    return place;
  });
  return {
    ...EMPTY_CONTENT,
    widgets: tiles.map(({ widget }, index) => ({ ...widget, id: String(index + 1) })),
    layout,
    variables,
  };
}

const EMPTY_SERIES: SeriesRef = {
  sensorId: '',
  deviceId: '',
  deviceVariable: '',
  missingDevice: '',
  keyName: '',
  label: '',
};

function createWidget(
  kind: string,
  title: string,
  options: WidgetInput['options'] = {},
  series: readonly SeriesRef[] = [],
): NewWidget {
  return { kind, title, options, series };
}

/** Returns a key as a title: `supply_temperature` is "Supply temperature". */
function toTitle(keyName: string): string {
  const words = keyName.replaceAll('_', ' ').trim();
  return (words.charAt(0).toUpperCase() + words.slice(1)).slice(0, 255);
}
