import type { DashboardContent, DashboardVariable, WidgetInput } from './dashboard';

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

/** What content says about a device. Exactly one of the two fields is not empty. */
export interface DeviceReference {
  /** The id of a device; in a document: its ref. */
  readonly deviceId: string;
  /** The name of a device that was deleted or that an import did not find. */
  readonly missingDevice: string;
}

/** Replaces the devices that content names by the result of `convert`. Series with sensor ids stay. */
export function convertDevices(
  content: DashboardContent<WidgetInput>,
  convert: (reference: DeviceReference) => DeviceReference,
): DashboardContent<WidgetInput> {
  return {
    ...content,
    widgets: content.widgets.map((widget) => ({
      ...widget,
      series: widget.series.map((series) => (hasDevice(series) ? { ...series, ...convert(series) } : series)),
      options: convertOptions(widget.options, convert),
    })),
    variables: content.variables.map((variable) => convertVariable(variable, convert)),
  };
}

function convertOptions(
  options: WidgetInput['options'],
  convert: (reference: DeviceReference) => DeviceReference,
): WidgetInput['options'] {
  const reference = getOptionDevice(options);
  if (!reference) return options;
  const { deviceId: _id, missingDevice: _name, ...others } = options;
  const { deviceId, missingDevice } = convert(reference);
  return { ...others, ...(deviceId === '' ? { missingDevice } : { deviceId }) };
}

function convertVariable(
  variable: DashboardVariable,
  convert: (reference: DeviceReference) => DeviceReference,
): DashboardVariable {
  if (variable.kind !== 'device' || variable.value === '') return variable;
  return { ...variable, value: convert({ deviceId: variable.value, missingDevice: '' }).deviceId };
}

/** Returns the device that the options of a widget name directly, not by a variable. */
export function getOptionDevice(options: WidgetInput['options']): DeviceReference | undefined {
  const reference = { deviceId: toText(options['deviceId']), missingDevice: toText(options['missingDevice']) };
  return hasDevice(reference) ? reference : undefined;
}

/** A device, and a normalized key of which a series shows the sensor. */
interface UsedKey {
  readonly device: DeviceReference;
  readonly keyName: string;
}

/** Lists the keys that the series of content use. A variable stands for its initial device. */
export function listUsedKeys({ widgets, variables }: DashboardContent<WidgetInput>): UsedKey[] {
  return widgets.flatMap(({ series }) =>
    series.flatMap(({ keyName, deviceVariable, ...reference }) => {
      const device = hasDevice(reference) ? toReference(reference) : getVariableDevice(variables, deviceVariable);
      return device ? [{ device, keyName }] : [];
    }),
  );
}

/** A device, and the name of a command that a widget executes on it. */
interface UsedCommand {
  readonly device: DeviceReference;
  readonly commandName: string;
}

/** Lists the commands that the options of widgets name. A variable stands for its initial device. */
export function listUsedCommands({ widgets, variables }: DashboardContent<WidgetInput>): UsedCommand[] {
  return widgets.flatMap(({ options }) => {
    const commandName = toText(options['commandName']);
    const device = getOptionDevice(options) ?? getVariableDevice(variables, toText(options['deviceVariable']));
    return commandName !== '' && device ? [{ device, commandName }] : [];
  });
}

/** Lists the names of the connections that the options of widgets name, each once. */
export function listUsedConnections({ widgets }: DashboardContent<WidgetInput>): string[] {
  const names = widgets.flatMap(({ options: { connectionNames } }) =>
    Array.isArray(connectionNames) ? connectionNames.map(toText) : [],
  );
  return [...new Set(names.filter((name) => name !== ''))];
}

/** Returns a text that is the same for two references to the same device. */
export function toReferenceKey({ deviceId, missingDevice }: DeviceReference): string {
  return JSON.stringify([deviceId, missingDevice]);
}

function hasDevice({ deviceId, missingDevice }: DeviceReference): boolean {
  return deviceId !== '' || missingDevice !== '';
}

function toReference({ deviceId, missingDevice }: DeviceReference): DeviceReference {
  return { deviceId, missingDevice };
}

/** Returns the initial device of a variable; undefined if there is none. */
function getVariableDevice(variables: readonly DashboardVariable[], name: string): DeviceReference | undefined {
  const variable = variables.find((candidate) => candidate.kind === 'device' && candidate.name === name);
  return variable && variable.value !== '' ? { deviceId: variable.value, missingDevice: '' } : undefined;
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
