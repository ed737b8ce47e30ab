import { findSchemaViolations } from '../connections';
import type { Violation } from '../kernel/errors';
import {
  contentTooLarge,
  GRID_COLUMNS,
  MAX_CONTENT_BYTES,
  MAX_SENSORS,
  MAX_WIDGETS,
  tooManySensors,
  tooManyWidgets,
  type DashboardContent,
  type DashboardVariable,
  type SeriesRef,
  type WidgetInput,
  type WidgetPlace,
} from './dashboard';
import { toStoredContent } from './content';
import { findWidgetKind, WIDGET_KINDS } from './widgetKinds';

const VARIABLE_NAME = /^[A-Za-z_]\w*$/;

/** Decides whether a widget may have a kind that this server does not know. */
type IsUnknownKindAllowed = (widget: WidgetInput) => boolean;

/** Throws `too_many_widgets`, `too_many_sensors` or `content_too_large`. */
export function assertWithinLimits(content: DashboardContent<WidgetInput>): void {
  if (content.widgets.length > MAX_WIDGETS) throw tooManyWidgets(content.widgets.length);
  const sensors = new Set(content.widgets.flatMap(({ series }) => series.map(toSensorKey)));
  if (sensors.size > MAX_SENSORS) throw tooManySensors(sensors.size);
  const bytes = Buffer.byteLength(JSON.stringify(toStoredContent(content)));
  if (bytes > MAX_CONTENT_BYTES) throw contentTooLarge(bytes);
}

/** Checks content, apart from references to the database. `root`: the path of the content in the request. */
export function checkContent(
  content: DashboardContent<WidgetInput>,
  root: string,
  isUnknownKindAllowed: IsUnknownKindAllowed,
): Violation[] {
  const { widgets, layout, variables } = content;
  const names = widgets.map(({ id }) => id).filter((id) => id !== '');
  return [
    ...checkUnique(names, `${root}.widgets`, 'widget'),
    ...widgets.flatMap((widget, index) =>
      checkWidget(widget, variables, `${root}.widgets[${index}].`, isUnknownKindAllowed),
    ),
    ...checkLayout(layout, widgets, `${root}.layout`),
    ...checkVariables(variables, `${root}.variables`),
  ];
}

/** Checks one widget. `prefix`: the path of its fields in the request, for example `content.widgets[0].`. */
export function checkWidget(
  widget: WidgetInput,
  variables: readonly DashboardVariable[],
  prefix: string,
  isUnknownKindAllowed: IsUnknownKindAllowed,
): Violation[] {
  const kind = findWidgetKind(widget.kind);
  const series = widget.series.flatMap((ref, index) => checkSeries(ref, variables, `${prefix}series[${index}]`));
  if (!kind) return [...(isUnknownKindAllowed(widget) ? [] : [reportUnknownKind(widget.kind, prefix)]), ...series];
  return [
    ...findSchemaViolations(kind.optionsSchema, widget.options, `${prefix}options`),
    ...checkDeviceOptions(widget.options, variables, `${prefix}options`),
    ...(widget.series.length > kind.maxSeries
      ? [
          {
            field: `${prefix}series`,
            description: `has ${widget.series.length} items: a widget of the kind ${kind.id} can have at most ${kind.maxSeries}`,
          },
        ]
      : []),
    ...series,
  ];
}

function reportUnknownKind(kind: string, prefix: string): Violation {
  const ids = WIDGET_KINDS.map(({ id }) => `\`${id}\``).join(', ');
  return {
    field: `${prefix}kind`,
    description: `${JSON.stringify(kind)} is not a kind of this server: use one of ${ids}`,
  };
}

/** Options that name a device name it once: by its id, by a variable, or as missing. */
function checkDeviceOptions(
  options: Readonly<Record<string, unknown>>,
  variables: readonly DashboardVariable[],
  path: string,
): Violation[] {
  const { deviceVariable } = options;
  const [first, second] = ['deviceId', 'deviceVariable', 'missingDevice'].filter(
    (name) => (options[name] ?? '') !== '',
  );
  if (first !== undefined && second !== undefined)
    return [{ field: `${path}.${second}`, description: `must not be set together with ${first}: remove one of them` }];
  if (typeof deviceVariable !== 'string' || deviceVariable === '') return [];
  return checkDeviceVariable(deviceVariable, variables, `${path}.deviceVariable`);
}

function checkSeries(ref: SeriesRef, variables: readonly DashboardVariable[], path: string): Violation[] {
  const { sensorId, deviceId, deviceVariable, missingDevice, keyName } = ref;
  const setCount = [sensorId, deviceId, deviceVariable, missingDevice].filter((value) => value !== '').length;
  if (setCount !== 1)
    return [
      {
        field: path,
        description: `must have exactly one of sensorId, deviceId, deviceVariable and missingDevice (got ${setCount})`,
      },
    ];
  const violations =
    deviceVariable === '' ? [] : checkDeviceVariable(deviceVariable, variables, `${path}.deviceVariable`);
  if (sensorId !== '' && keyName !== '')
    violations.push({ field: `${path}.keyName`, description: 'must be empty with sensorId: remove one of them' });
  if (sensorId === '' && keyName === '')
    violations.push({ field: `${path}.keyName`, description: 'is required without sensorId: set a normalized key' });
  return violations;
}

function checkDeviceVariable(name: string, variables: readonly DashboardVariable[], field: string): Violation[] {
  if (variables.some((variable) => variable.name === name && variable.kind === 'device')) return [];
  const names = variables.filter(({ kind }) => kind === 'device').map((variable) => `\`${variable.name}\``);
  return [
    {
      field,
      description: `${JSON.stringify(name)} is not a device variable of the dashboard: ${names.length > 0 ? `use one of ${names.join(', ')}` : 'it has none; add it to the variables of the content'}`,
    },
  ];
}

function checkLayout(layout: readonly WidgetPlace[], widgets: readonly WidgetInput[], root: string): Violation[] {
  const kindById = new Map(widgets.map(({ id, kind }) => [id, kind]));
  const violations = checkUnique(
    layout.map(({ widgetId }) => widgetId),
    root,
    'place for the widget',
  );
  layout.forEach((place, index) => {
    const path = `${root}[${index}]`;
    const kind = kindById.get(place.widgetId);
    if (kind === undefined)
      violations.push({
        field: `${path}.widgetId`,
        description: `${JSON.stringify(place.widgetId)} is not a widget of this content: use the id of one of its widgets`,
      });
    else violations.push(...checkSize(place, kind, path));
    const overlapped = layout.findIndex((other, otherIndex) => otherIndex < index && doOverlap(place, other));
    if (overlapped >= 0)
      violations.push({ field: path, description: `overlaps ${root}[${overlapped}]: move one of the two widgets` });
  });
  return violations;
}

function checkSize({ column, width, height }: WidgetPlace, kindId: string, path: string): Violation[] {
  const { minWidth, minHeight } = findWidgetKind(kindId) ?? { minWidth: 1, minHeight: 1 };
  const violations: Violation[] = [];
  if (column + width > GRID_COLUMNS)
    violations.push({
      field: `${path}.width`,
      description: `ends in column ${column + width}: column and width together must be at most ${GRID_COLUMNS}`,
    });
  if (width < minWidth)
    violations.push({
      field: `${path}.width`,
      description: `must be at least ${minWidth} for the kind ${kindId} (got ${width})`,
    });
  if (height < minHeight)
    violations.push({
      field: `${path}.height`,
      description: `must be at least ${minHeight} for the kind ${kindId} (got ${height})`,
    });
  return violations;
}

function doOverlap(a: WidgetPlace, b: WidgetPlace): boolean {
  return (
    a.column < b.column + b.width &&
    b.column < a.column + a.width &&
    a.row < b.row + b.height &&
    b.row < a.row + a.height
  );
}

function checkVariables(variables: readonly DashboardVariable[], root: string): Violation[] {
  return [
    ...checkUnique(
      variables.map(({ name }) => name),
      root,
      'variable',
    ),
    ...variables.flatMap((variable, index) => checkVariable(variable, `${root}[${index}]`)),
  ];
}

function checkVariable({ name, kind, keyNames, choices, value }: DashboardVariable, path: string): Violation[] {
  const violations: Violation[] = [];
  if (!VARIABLE_NAME.test(name))
    violations.push({
      field: `${path}.name`,
      description: 'must consist of letters, digits and underscores, and must not start with a digit',
    });
  if (kind === 'device') {
    if (choices.length > 0)
      violations.push({
        field: `${path}.choices`,
        description: 'must be empty for a device variable: remove the texts',
      });
    return violations;
  }
  if (keyNames.length > 0)
    violations.push({ field: `${path}.keyNames`, description: 'must be empty for a choice: remove the keys' });
  if (choices.length === 0)
    violations.push({ field: `${path}.choices`, description: 'is required for a choice: set at least one text' });
  else if (value !== '' && !choices.includes(value))
    violations.push({ field: `${path}.value`, description: 'must be one of the choices, or empty' });
  return [...violations, ...checkUnique(choices, `${path}.choices`, 'text')];
}

/** Reports each value that occurs more than once. */
function checkUnique(values: readonly string[], root: string, what: string): Violation[] {
  const seen = new Set<string>();
  return values.flatMap((value) => {
    if (!seen.has(value)) {
      seen.add(value);
      return [];
    }
    return [{ field: root, description: `contains the ${what} ${JSON.stringify(value)} more than once: remove one` }];
  });
}

/** Returns a text that is the same for two references to the same sensor. */
function toSensorKey({ sensorId, deviceId, deviceVariable, missingDevice, keyName }: SeriesRef): string {
  return JSON.stringify([sensorId, deviceId, deviceVariable, missingDevice, keyName]);
}
