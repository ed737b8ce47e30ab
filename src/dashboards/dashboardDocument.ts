import { getOptionDeviceIds } from './contentReferences';
import type { DashboardContent, DashboardVariable, SeriesRef, WidgetInput } from './dashboard';

/** The value of `format` in a document. */
export const DOCUMENT_FORMAT = 'plantroom.dashboard';
/** The version of the format that this server reads and writes. */
export const DOCUMENT_VERSION = 1;

/** An exported dashboard: widget ids are numbers, and device ids are the `ref` of one of `devices`. */
export interface DashboardDocument {
  readonly name: string;
  readonly description: string;
  readonly content: DashboardContent<WidgetInput>;
  readonly devices: readonly DocumentDevice[];
}

/** A device of a document. */
export interface DocumentDevice {
  /** Identifies it within the document. */
  readonly ref: string;
  readonly name: string;
  /** Empty: the device was not bound. */
  readonly clientDeviceId: string;
  /** The normalized keys that the widgets use. */
  readonly keyNames: readonly string[];
}

/** How convertDevices replaces what names a device. */
interface DeviceConversion {
  readonly series: (series: SeriesRef) => SeriesRef;
  /** Returns the device that replaces the one of an option or variable; undefined: none. */
  readonly device: (id: string) => string | undefined;
}

/** Replaces the devices and sensors that content names. */
export function convertDevices(
  content: DashboardContent<WidgetInput>,
  { series, device }: DeviceConversion,
): DashboardContent<WidgetInput> {
  return {
    ...content,
    widgets: content.widgets.map((widget) => ({
      ...widget,
      series: widget.series.map(series),
      options: convertOptions(widget.options, device),
    })),
    variables: content.variables.map((variable) => convertVariable(variable, device)),
  };
}

function convertOptions(options: WidgetInput['options'], device: DeviceConversion['device']): WidgetInput['options'] {
  const [deviceId] = getOptionDeviceIds(options);
  if (deviceId === undefined) return options;
  const { deviceId: _replaced, ...others } = options;
  const replacement = device(deviceId);
  return replacement === undefined ? others : { ...others, deviceId: replacement };
}

function convertVariable(variable: DashboardVariable, device: DeviceConversion['device']): DashboardVariable {
  if (variable.kind !== 'device' || variable.value === '') return variable;
  return { ...variable, value: device(variable.value) ?? '' };
}
