import type { Violation } from '../kernel/errors';

/** A unit of measurement. */
interface UnitMeasurement {
  /** Its UCUM code (ucum.org), case-sensitive. */
  readonly id: string;
  readonly name: string;
  /** The common symbol of the unit. */
  readonly symbol: string;
}

const ROWS: readonly (readonly [id: string, name: string, symbol: string])[] = [
  ['Cel', 'degree Celsius', '°C'],
  ['[degF]', 'degree Fahrenheit', '°F'],
  ['K', 'kelvin', 'K'],
  ['%', 'percent', '%'],
  ['[ppm]', 'parts per million', 'ppm'],
  ['[ppb]', 'parts per billion', 'ppb'],
  ['1', 'number without a unit', ''],
  ['{count}', 'count', ''],
  ['Pa', 'pascal', 'Pa'],
  ['hPa', 'hectopascal', 'hPa'],
  ['kPa', 'kilopascal', 'kPa'],
  ['MPa', 'megapascal', 'MPa'],
  ['mbar', 'millibar', 'mbar'],
  ['bar', 'bar', 'bar'],
  ['[psi]', 'pound per square inch', 'psi'],
  ['lx', 'lux', 'lx'],
  ['W/m2', 'watt per square metre', 'W/m²'],
  ['umol/m2/s', 'micromole per square metre and second', 'µmol/(m²·s)'],
  ['{UVI}', 'UV index', 'UVI'],
  ['dB', 'decibel', 'dB'],
  ['dB[SPL]', 'decibel sound pressure level', 'dB SPL'],
  ['dB{mW}', 'decibel milliwatt', 'dBm'],
  ['ug/m3', 'microgram per cubic metre', 'µg/m³'],
  ['mg/m3', 'milligram per cubic metre', 'mg/m³'],
  ['g/m3', 'gram per cubic metre', 'g/m³'],
  ['mg/L', 'milligram per litre', 'mg/l'],
  ['Bq/m3', 'becquerel per cubic metre', 'Bq/m³'],
  ['uSv/h', 'microsievert per hour', 'µSv/h'],
  ['V', 'volt', 'V'],
  ['mV', 'millivolt', 'mV'],
  ['kV', 'kilovolt', 'kV'],
  ['A', 'ampere', 'A'],
  ['mA', 'milliampere', 'mA'],
  ['A.h', 'ampere hour', 'Ah'],
  ['W', 'watt', 'W'],
  ['kW', 'kilowatt', 'kW'],
  ['MW', 'megawatt', 'MW'],
  ['V.A', 'volt ampere', 'VA'],
  ['kV.A', 'kilovolt ampere', 'kVA'],
  ['V.A{reactive}', 'volt ampere reactive', 'var'],
  ['kV.A{reactive}', 'kilovolt ampere reactive', 'kvar'],
  ['W.h', 'watt hour', 'Wh'],
  ['kW.h', 'kilowatt hour', 'kWh'],
  ['MW.h', 'megawatt hour', 'MWh'],
  ['V.A.h{reactive}', 'volt ampere reactive hour', 'varh'],
  ['J', 'joule', 'J'],
  ['MJ', 'megajoule', 'MJ'],
  ['GJ', 'gigajoule', 'GJ'],
  ['Hz', 'hertz', 'Hz'],
  ['kHz', 'kilohertz', 'kHz'],
  ['MHz', 'megahertz', 'MHz'],
  ['/min', 'per minute', '1/min'],
  ['Ohm', 'ohm', 'Ω'],
  ['kOhm', 'kiloohm', 'kΩ'],
  ['m3', 'cubic metre', 'm³'],
  ['L', 'litre', 'l'],
  ['mL', 'millilitre', 'ml'],
  ['m3/h', 'cubic metre per hour', 'm³/h'],
  ['m3/s', 'cubic metre per second', 'm³/s'],
  ['L/min', 'litre per minute', 'l/min'],
  ['L/s', 'litre per second', 'l/s'],
  ['kg/h', 'kilogram per hour', 'kg/h'],
  ['mm', 'millimetre', 'mm'],
  ['cm', 'centimetre', 'cm'],
  ['m', 'metre', 'm'],
  ['km', 'kilometre', 'km'],
  ['m2', 'square metre', 'm²'],
  ['mm/h', 'millimetre per hour', 'mm/h'],
  ['m/s', 'metre per second', 'm/s'],
  ['mm/s', 'millimetre per second', 'mm/s'],
  ['km/h', 'kilometre per hour', 'km/h'],
  ['m/s2', 'metre per second squared', 'm/s²'],
  ['[g]', 'standard gravity', 'g'],
  ['deg', 'degree of angle', '°'],
  ['deg/s', 'degree per second', '°/s'],
  ['g', 'gram', 'g'],
  ['kg', 'kilogram', 'kg'],
  ['t', 'tonne', 't'],
  ['N', 'newton', 'N'],
  ['kN', 'kilonewton', 'kN'],
  ['N.m', 'newton metre', 'N·m'],
  ['uS/cm', 'microsiemens per centimetre', 'µS/cm'],
  ['mS/cm', 'millisiemens per centimetre', 'mS/cm'],
  ['dS/m', 'decisiemens per metre', 'dS/m'],
  ['[pH]', 'pH', 'pH'],
  ['{NTU}', 'nephelometric turbidity unit', 'NTU'],
  ['ms', 'millisecond', 'ms'],
  ['s', 'second', 's'],
  ['min', 'minute', 'min'],
  ['h', 'hour', 'h'],
  ['d', 'day', 'd'],
  ['bit/s', 'bit per second', 'bit/s'],
  ['By', 'byte', 'B'],
];

/** All units that the server knows, sorted by name (case-insensitive). */
export const UNITS: readonly UnitMeasurement[] = ROWS.map(([id, name, symbol]) => ({ id, name, symbol })).toSorted(
  (a, b) => (a.name.toLowerCase() < b.name.toLowerCase() ? -1 : 1),
);

const IDS: ReadonlySet<string> = new Set(UNITS.map(({ id }) => id));

/** Validates a unit id. Undefined and empty (no unit) are valid. */
export function checkUnit(unitMeasurementId: string | undefined): Violation[] {
  if (!unitMeasurementId || IDS.has(unitMeasurementId)) return [];
  return [
    {
      field: 'unitMeasurementId',
      description: `${JSON.stringify(unitMeasurementId)} is not a known unit; call ListUnitMeasurements for the valid ids`,
    },
  ];
}
