import type { Json } from '../call/jsonClient';

/** A sensor with what every row of it says. */
export interface ExportedSensor {
  readonly deviceId: string;
  readonly deviceName: string;
  readonly sensorId: string;
  /** The name of what it measures. */
  readonly key: string;
  /** Empty: none. */
  readonly unit: string;
}

/** How rows are written. */
export interface RowFormat {
  /** What stands before all rows. */
  readonly head: string;
  /** One reading, as the server answers it in JSON. */
  row(sensor: ExportedSensor, reading: Json): string;
}

const CASES = ['number', 'integer', 'boolean', 'text', 'json'] as const;
const COLUMNS = ['device_id', 'device_name', 'sensor_id', 'key', 'unit', 'time', 'value'];
const FORMULA = /^[=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** CSV after RFC 4180, with a header. No spreadsheet takes a text in it for a formula. */
export const csv: RowFormat = {
  head: `${COLUMNS.join(',')}\r\n`,
  row: (sensor, reading) => {
    const value = valueOf(reading);
    const shown = typeof value === 'string' ? textCell(value) : quoted(JSON.stringify(value));
    const texts = [sensor.deviceId, sensor.deviceName, sensor.sensorId, sensor.key, sensor.unit].map(textCell);
    return `${texts.join(',')},${String(reading['time'])},${shown}\r\n`;
  },
};

/** One JSON object a line. */
export const jsonl: RowFormat = {
  head: '',
  row: (sensor, reading) => `${JSON.stringify({ ...sensor, time: reading['time'], receivedAt: reading['receivedAt'], value: valueOf(reading) })}\n`,
};

function valueOf(reading: Json): unknown {
  const name = CASES.find((one) => one in reading);
  return name === undefined ? null : reading[name];
}

function textCell(text: string): string {
  return quoted(FORMULA.test(text) ? `'${text}` : text);
}

function quoted(text: string): string {
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
