import { SCHEMA_DIALECT } from '../connections';
import { EXECUTION_STATES } from '../executions';
import type { JsonObject } from '../kernel/jsonValue';

/** A kind of widget. */
export interface WidgetKind {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of its options. `deviceId`, `deviceVariable` and `missingDevice` always name a device. */
  readonly optionsSchema: JsonObject;
  /** The maximum number of series; 0: none. */
  readonly maxSeries: number;
  /** In columns. */
  readonly minWidth: number;
  /** In rows. */
  readonly minHeight: number;
}

const MAX_SERIES = 20;

/** Creates the schema of options; none is required unless `required` names it. */
function options(properties: JsonObject, required: readonly string[] = []): JsonObject {
  return {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    additionalProperties: false,
    properties,
    ...(required.length > 0 && { required }),
  };
}

const text = (title: string, maxLength: number, description = title): JsonObject => ({
  type: 'string',
  title,
  maxLength,
  description: `${description}.`,
});
const flag = (title: string, description: string): JsonObject => ({ type: 'boolean', title, description });
const number = (title: string, description: string): JsonObject => ({ type: 'number', title, description });
const integer = (title: string, minimum: number, maximum: number): JsonObject => ({
  type: 'integer',
  title,
  minimum,
  maximum,
});

const UNIT = text('Unit', 32, 'Unit that is displayed instead of the unit of the sensor template');
const DECIMALS = integer('Decimal places', 0, 6);
const LAST_SECONDS = integer('Time range in seconds before now, instead of that of the dashboard', 60, 315_360_000);
const MIN = number('Minimum', 'Lower end of the scale.');
const MAX = number('Maximum', 'Upper end of the scale.');
const COLOR = { enum: ['neutral', 'good', 'warning', 'critical'], title: 'Color' };
const DEVICE = {
  deviceId: { type: 'string', maxLength: 128, title: 'Device', description: 'Id of the device.' },
  deviceVariable: text('Device variable', 64, 'Name of a device variable of the dashboard, instead of a device'),
  missingDevice: text('Missing device', 255, 'Name of a device that an import did not find, instead of a device'),
};
const STATES = {
  type: 'array',
  maxItems: 32,
  title: 'States',
  description: 'How values are displayed.',
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['value'],
    properties: { value: { type: ['string', 'number', 'boolean'] }, label: text('Label', 64), color: COLOR },
  },
};

/** All kinds of widgets of this server. */
export const WIDGET_KINDS: readonly WidgetKind[] = [
  {
    id: 'time_series',
    name: 'Time series',
    description: 'Numbers over time, as lines with the band between minimum and maximum.',
    optionsSchema: options({
      style: { enum: ['line', 'area', 'steps', 'points'], title: 'Style' },
      min: MIN,
      max: MAX,
      unit: UNIT,
      showBand: flag('Band', 'Whether the band between minimum and maximum is drawn.'),
      lastSeconds: LAST_SECONDS,
    }),
    maxSeries: MAX_SERIES,
    minWidth: 4,
    minHeight: 3,
  },
  {
    id: 'latest',
    name: 'Latest values',
    description: 'The latest value of each sensor and its age.',
    optionsSchema: options({
      unit: UNIT,
      decimals: DECIMALS,
      showAge: flag('Age', 'Whether the age of each value is displayed.'),
      states: STATES,
    }),
    maxSeries: MAX_SERIES,
    minWidth: 2,
    minHeight: 2,
  },
  {
    id: 'gauge',
    name: 'Gauge',
    description: 'The latest number of one sensor on a scale.',
    optionsSchema: options({
      min: MIN,
      max: MAX,
      unit: UNIT,
      decimals: DECIMALS,
      thresholds: {
        type: 'array',
        maxItems: 10,
        title: 'Thresholds',
        description: 'Colors from a value upward.',
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['value', 'color'],
          properties: { value: number('Value', 'Start of the color.'), color: COLOR },
        },
      },
    }),
    maxSeries: 1,
    minWidth: 3,
    minHeight: 3,
  },
  {
    id: 'state_timeline',
    name: 'State timeline',
    description: 'States over time, for example on and off, as bars.',
    optionsSchema: options({ states: STATES, lastSeconds: LAST_SECONDS }),
    maxSeries: MAX_SERIES,
    minWidth: 4,
    minHeight: 2,
  },
  {
    id: 'table',
    name: 'Table',
    description: 'The latest values of several sensors as a table.',
    optionsSchema: options({
      columns: {
        type: 'array',
        minItems: 1,
        maxItems: 6,
        uniqueItems: true,
        title: 'Columns',
        description: 'The columns, from left to right.',
        items: { enum: ['device', 'key', 'label', 'value', 'unit', 'time'] },
      },
      decimals: DECIMALS,
    }),
    maxSeries: MAX_SERIES,
    minWidth: 4,
    minHeight: 3,
  },
  {
    id: 'command',
    name: 'Command',
    description: 'Executes a command of a device after a confirmation. It requires commands:execute of the viewer.',
    optionsSchema: options(
      {
        ...DEVICE,
        commandName: { ...text('Command', 255, 'Name of the command of the device'), minLength: 1 },
        params: { type: 'object', title: 'Parameters', description: 'Initial values of the parameters.' },
        confirmText: text('Confirmation', 255, 'Question that is displayed before the command is executed'),
      },
      ['commandName'],
    ),
    maxSeries: 0,
    minWidth: 3,
    minHeight: 2,
  },
  {
    id: 'executions',
    name: 'Executions',
    description: 'The latest executions of a device or of the organization.',
    optionsSchema: options({
      ...DEVICE,
      states: {
        type: 'array',
        maxItems: EXECUTION_STATES.length,
        uniqueItems: true,
        title: 'States',
        description: 'Only executions in these states.',
        items: { enum: EXECUTION_STATES },
      },
      limit: integer('Number of executions', 1, 50),
    }),
    maxSeries: 0,
    minWidth: 4,
    minHeight: 3,
  },
  {
    id: 'connections',
    name: 'Connections',
    description: 'The live status of connections.',
    optionsSchema: options({
      connectionNames: {
        type: 'array',
        maxItems: 50,
        uniqueItems: true,
        title: 'Connections',
        description: 'Names of the connections; empty: all.',
        items: { type: 'string', minLength: 1, maxLength: 255 },
      },
    }),
    maxSeries: 0,
    minWidth: 4,
    minHeight: 2,
  },
  {
    id: 'alarms',
    name: 'Alarms',
    description: 'Active alarms of the organization.',
    optionsSchema: options({ limit: integer('Number of alarms', 1, 50) }),
    maxSeries: 0,
    minWidth: 4,
    minHeight: 3,
  },
  {
    id: 'text',
    name: 'Text',
    description: 'Text in a subset of Markdown, without HTML.',
    optionsSchema: options({ text: text('Text', 10_000) }, ['text']),
    maxSeries: 0,
    minWidth: 2,
    minHeight: 1,
  },
  {
    id: 'image',
    name: 'Image',
    description: 'An image of a device, for example a site plan, with the latest values of sensors as pins.',
    optionsSchema: options({
      ...DEVICE,
      imageNumber: integer('Number of the image of the device; without it, the cover image', 1, 50),
      alternativeText: text('Alternative text', 255, 'Description of the image for people who cannot see it'),
      pins: {
        type: 'array',
        maxItems: MAX_SERIES,
        title: 'Pins',
        description: 'Where the value of each series is displayed, in the order of the series.',
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['x', 'y'],
          properties: {
            x: { type: 'number', minimum: 0, maximum: 100, description: 'Percent from the left.' },
            y: { type: 'number', minimum: 0, maximum: 100, description: 'Percent from the top.' },
          },
        },
      },
    }),
    maxSeries: MAX_SERIES,
    minWidth: 3,
    minHeight: 3,
  },
  {
    id: 'clock',
    name: 'Clock',
    description: 'The time of the server.',
    optionsSchema: options({
      timeZone: text('Time zone', 64, 'IANA time zone; empty: that of the browser'),
      showDate: flag('Date', 'Whether the date is displayed.'),
    }),
    maxSeries: 0,
    minWidth: 2,
    minHeight: 1,
  },
];

const KIND_BY_ID = new Map(WIDGET_KINDS.map((kind) => [kind.id, kind]));

/** Finds a kind; undefined for a kind that this server does not know. */
export function findWidgetKind(id: string): WidgetKind | undefined {
  return KIND_BY_ID.get(id);
}
