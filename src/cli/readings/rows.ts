import type { Json } from '../call/jsonClient';

/** The columns of a sensor, the same in all its rows. */
export interface ExportedSensor {
  readonly deviceId: string;
  readonly deviceName: string;
  readonly sensorId: string;
  /** The key name of its sensor template. */
  readonly key: string;
  /** The symbol of its unit; empty if it has none. */
  readonly unit: string;
}

/** An output format. */
export interface RowFormat {
  /** The text before the first row. */
  readonly header: string;
  /** Formats one reading, in the JSON of the API. */
  formatRow(sensor: ExportedSensor, reading: Json): string;
}

const VALUE_FIELDS = ['number', 'integer', 'boolean', 'text', 'json'] as const;
const COLUMNS = ['device_id', 'device_name', 'sensor_id', 'key', 'unit', 'time', 'value', 'time_source'];
/** The start of a text that a spreadsheet would run as a formula. */
const FORMULA = /^[=+\-@\t\r]/;
const NEEDS_QUOTES = /[",\r\n]/;

/** CSV (RFC 4180) with a header. Text that a spreadsheet would run as a formula is escaped. */
export const csv: RowFormat = {
  header: `${COLUMNS.join(',')}\r\n`,
  formatRow: (sensor, reading) => {
    const value = getValue(reading);
    const cell = typeof value === 'string' ? formatText(value) : quote(JSON.stringify(value));
    const texts = [sensor.deviceId, sensor.deviceName, sensor.sensorId, sensor.key, sensor.unit].map(formatText);
    return `${texts.join(',')},${String(reading['time'])},${cell},${getTimeSource(reading) ?? ''}\r\n`;
  },
};

/** JSON Lines: one JSON object per line. */
export const jsonl: RowFormat = {
  header: '',
  formatRow: (sensor, reading) =>
    `${JSON.stringify({ ...sensor, time: reading['time'], timeSource: getTimeSource(reading), receivedAt: reading['receivedAt'], value: getValue(reading) })}\n`,
};

/** Returns the value of a reading, which is in the field of its type; null if there is none. */
function getValue(reading: Json): unknown {
  const name = VALUE_FIELDS.find((field) => field in reading);
  return name === undefined ? null : reading[name];
}

/** Returns who reported the time, for example `device`; undefined if that is not known. */
function getTimeSource(reading: Json): string | undefined {
  const { timeSource } = reading;
  return typeof timeSource === 'string' ? timeSource : undefined;
}

function formatText(text: string): string {
  return quote(FORMULA.test(text) ? `'${text}` : text);
}

function quote(text: string): string {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
