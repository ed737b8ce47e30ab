import type { Violation } from '../kernel/errors';
import { isId } from '../kernel/ids';
import type { DashboardContent, WidgetInput } from './dashboard';
import type { DashboardRepositories } from './dashboardRepositories';
import type { WidgetSensor } from './widgetRepository';

/** A sensor or device that content names, and the path of the field that names it. */
interface Reference {
  readonly kind: 'sensor' | 'device';
  readonly id: string;
  readonly field: string;
}

/**
 * Reports references to sensors and devices that the organization does not have. References that the current content
 * has already are not checked, because the sensor or device may have been deleted.
 */
export async function checkReferences(
  { site }: DashboardRepositories,
  organizationId: string,
  references: readonly Reference[],
  current: DashboardContent<WidgetInput>,
): Promise<Violation[]> {
  const known = new Set(listReferences(current, '').map(toKey));
  const added = references.filter((reference) => !known.has(toKey(reference)));
  const pickIds = (kind: Reference['kind']): string[] => [
    ...new Set(added.filter((reference) => reference.kind === kind && isId(reference.id)).map(({ id }) => id)),
  ];
  const sensors = await site.findSensors(organizationId, pickIds('sensor'));
  const devices = await site.findDevices(organizationId, pickIds('device'));
  const existing = new Set([
    ...sensors.map(({ sensorId }) => toKey({ kind: 'sensor', id: sensorId })),
    ...devices.map(({ id }) => toKey({ kind: 'device', id })),
  ]);
  return added
    .filter((reference) => !existing.has(toKey(reference)))
    .map(({ kind, id, field }) => ({
      field,
      description: `${JSON.stringify(id)} is not a ${kind} of this organization: ${kind === 'sensor' ? 'call GetDigitalDevice for the sensors of a device' : 'call ListDigitalDevices for the valid ids'}`,
    }));
}

function toKey({ kind, id }: Pick<Reference, 'kind' | 'id'>): string {
  return `${kind} ${id}`;
}

/**
 * Returns the sensors and devices that widgets show, for `widget_sensors`. `knownDevices`: the devices of sensors that
 * may have been deleted.
 */
export async function listWidgetSensors(
  { site }: DashboardRepositories,
  organizationId: string,
  widgets: readonly WidgetInput[],
  knownDevices: ReadonlyMap<string, string>,
): Promise<WidgetSensor[]> {
  const sensorIds = widgets.flatMap(({ series }) => series.map(({ sensorId }) => sensorId)).filter((id) => id !== '');
  const found = await site.findSensors(organizationId, [...new Set(sensorIds)]);
  const deviceBySensor = new Map([
    ...knownDevices,
    ...found.map(({ sensorId, deviceId }) => [sensorId, deviceId] as const),
  ]);
  return widgets.flatMap(({ id: widgetId, series, options }) => [
    ...series
      .filter(({ sensorId, deviceId }) => sensorId !== '' || deviceId !== '')
      .map(({ sensorId, deviceId, keyName }) =>
        sensorId === ''
          ? { widgetId, sensorId: undefined, deviceId, keyName }
          : { widgetId, sensorId, deviceId: deviceBySensor.get(sensorId), keyName: undefined },
      ),
    ...getOptionDeviceIds(options).map((deviceId) => ({ widgetId, sensorId: undefined, deviceId, keyName: undefined })),
  ]);
}

/** Returns the device that the options of a widget name: none or one. */
export function getOptionDeviceIds(options: WidgetInput['options']): string[] {
  const { deviceId } = options;
  return typeof deviceId === 'string' && deviceId !== '' ? [deviceId] : [];
}

/** Lists the references of content. `root`: the path of the content in the request. */
export function listReferences({ widgets, variables }: DashboardContent<WidgetInput>, root: string): Reference[] {
  return [
    ...widgets.flatMap((widget, index) => listWidgetReferences(widget, `${root}.widgets[${index}].`)),
    ...variables.flatMap(({ kind, value }, index) =>
      kind === 'device' && value !== '' ? [{ kind, id: value, field: `${root}.variables[${index}].value` }] : [],
    ),
  ];
}

/** Lists the references of one widget. `prefix`: the path of its fields in the request. */
export function listWidgetReferences({ series, options }: WidgetInput, prefix: string): Reference[] {
  const fromSeries = series.flatMap(({ sensorId, deviceId }, index): Reference[] => {
    if (sensorId !== '') return [{ kind: 'sensor', id: sensorId, field: `${prefix}series[${index}].sensorId` }];
    return deviceId === '' ? [] : [{ kind: 'device', id: deviceId, field: `${prefix}series[${index}].deviceId` }];
  });
  const fromOptions = getOptionDeviceIds(options).map((id): Reference => ({
    kind: 'device',
    id,
    field: `${prefix}options.deviceId`,
  }));
  return [...fromSeries, ...fromOptions];
}
