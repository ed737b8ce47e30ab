import type { ValueType } from './sensorTemplate';

type Row = readonly [
  number: number,
  key: string,
  sensorType: string,
  valueType: ValueType,
  unit: string,
  description: string,
];

// The id is derived from the number, so a number never changes and is never reused. A new row uses the next number.
// The first row of a key also creates the key.
const ROWS: readonly Row[] = [
  [1, 'temperature', 'temperature', 'number', 'Cel', 'Air or object temperature.'],
  [2, 'temperature', 'temperature', 'number', '[degF]', 'Air or object temperature in degrees Fahrenheit.'],
  [3, 'humidity', 'humidity', 'number', '%', 'Relative humidity of the air.'],
  [4, 'dew_point', 'temperature', 'number', 'Cel', 'Temperature at which the air would be saturated.'],
  [5, 'pressure', 'pressure', 'number', 'bar', 'Pressure of a liquid or gas in a pipe or vessel.'],
  [6, 'barometric_pressure', 'barometer', 'number', 'hPa', 'Atmospheric pressure.'],
  [7, 'differential_pressure', 'pressure', 'number', 'Pa', 'Pressure between two sides, for example of a filter.'],
  [8, 'co2', 'carbon_dioxide', 'number', '[ppm]', 'Carbon dioxide in the air.'],
  [9, 'co', 'carbon_monoxide', 'number', '[ppm]', 'Carbon monoxide in the air.'],
  [10, 'tvoc', 'volatile_organic_compounds', 'number', '[ppb]', 'Total volatile organic compounds in the air.'],
  [11, 'iaq', 'air_quality', 'number', '1', 'Index of indoor air quality as calculated by the sensor.'],
  [12, 'pm1', 'particulate_matter', 'number', 'ug/m3', 'Particles up to 1 µm.'],
  [13, 'pm2_5', 'particulate_matter', 'number', 'ug/m3', 'Particles up to 2.5 µm.'],
  [14, 'pm10', 'particulate_matter', 'number', 'ug/m3', 'Particles up to 10 µm.'],
  [15, 'o3', 'ozone', 'number', '[ppb]', 'Ozone in the air.'],
  [16, 'no2', 'nitrogen_dioxide', 'number', '[ppb]', 'Nitrogen dioxide in the air.'],
  [17, 'ch2o', 'formaldehyde', 'number', '[ppb]', 'Formaldehyde in the air.'],
  [18, 'radon', 'radon', 'number', 'Bq/m3', 'Radon activity in the air.'],
  [19, 'illuminance', 'light', 'number', 'lx', 'Light that falls on the sensor.'],
  [20, 'noise', 'sound', 'number', 'dB[SPL]', 'Sound pressure level.'],
  [21, 'battery_level', 'battery', 'number', '%', 'Remaining charge of the battery.'],
  [22, 'battery_voltage', 'battery', 'number', 'V', 'Voltage of the battery.'],
  [23, 'battery_low', 'battery', 'boolean', '', 'True when the battery is nearly empty.'],
  [24, 'motion', 'motion', 'boolean', '', 'True while something moves.'],
  [25, 'occupancy', 'occupancy', 'boolean', '', 'True while a person is present.'],
  [26, 'people_count', 'people_counter', 'integer', '{count}', 'Number of people present.'],
  [27, 'people_in', 'people_counter', 'integer', '{count}', 'People that entered since the counter was reset.'],
  [28, 'people_out', 'people_counter', 'integer', '{count}', 'People that left since the counter was reset.'],
  [29, 'contact', 'contact', 'boolean', '', 'True while the door or window is open.'],
  [30, 'relay_state', 'relay', 'boolean', '', 'True while the relay is on.'],
  [31, 'switch_state', 'switch', 'boolean', '', 'True while the switch is on.'],
  [32, 'button', 'button', 'string', '', 'Button event, for example `single` or `long`.'],
  [33, 'valve_position', 'valve', 'number', '%', 'How far the valve is open.'],
  [34, 'valve_open', 'valve', 'boolean', '', 'True while the valve is open.'],
  [35, 'target_temperature', 'setpoint', 'number', 'Cel', 'Temperature setpoint of the controller.'],
  [36, 'target_humidity', 'setpoint', 'number', '%', 'Humidity setpoint of the controller.'],
  [37, 'setpoint', 'setpoint', 'number', '', 'Setpoint of the controller.'],
  [38, 'fan_speed', 'fan', 'number', '%', 'Fan speed relative to its maximum.'],
  [39, 'rotational_speed', 'rotation', 'number', '/min', 'Rotational speed in revolutions per minute.'],
  [40, 'dimming_level', 'light_control', 'number', '%', 'Brightness of the light.'],
  [41, 'blind_position', 'blind', 'number', '%', 'How far the blind is closed.'],
  [42, 'operating_mode', 'mode', 'string', '', 'Mode that the device is in, for example `heat` or `eco`.'],
  [43, 'flow', 'flow', 'number', 'm3/h', 'Volume flow.'],
  [44, 'flow', 'flow', 'number', 'L/min', 'Volume flow in litres per minute.'],
  [45, 'volume', 'meter', 'number', 'm3', 'Total volume of the meter, for example of water or gas.'],
  [46, 'volume', 'meter', 'number', 'L', 'Total volume of the meter, in litres.'],
  [47, 'level', 'level', 'number', 'm', 'Level of a liquid or of bulk goods.'],
  [48, 'fill_level', 'level', 'number', '%', 'Fill level of a tank or container.'],
  [49, 'supply_temperature', 'temperature', 'number', 'Cel', 'Supply temperature, for example of a heating circuit.'],
  [50, 'return_temperature', 'temperature', 'number', 'Cel', 'Return temperature.'],
  [51, 'water_temperature', 'temperature', 'number', 'Cel', 'Temperature of water.'],
  [52, 'heat_energy', 'meter', 'number', 'kW.h', 'Total heat of the meter.'],
  [53, 'soil_moisture', 'soil', 'number', '%', 'Volumetric water content of the soil.'],
  [54, 'soil_temperature', 'soil', 'number', 'Cel', 'Temperature of the soil.'],
  [55, 'soil_conductivity', 'soil', 'number', 'uS/cm', 'Electrical conductivity of the soil.'],
  [56, 'leaf_wetness', 'leaf', 'number', '%', 'Wet share of the leaf surface.'],
  [57, 'ph', 'ph', 'number', '[pH]', 'Acidity.'],
  [58, 'conductivity', 'conductivity', 'number', 'uS/cm', 'Electrical conductivity of a liquid.'],
  [59, 'dissolved_oxygen', 'dissolved_oxygen', 'number', 'mg/L', 'Dissolved oxygen in the water.'],
  [60, 'turbidity', 'turbidity', 'number', '{NTU}', 'Turbidity of a liquid.'],
  [61, 'redox_potential', 'redox', 'number', 'mV', 'Oxidation-reduction potential.'],
  [62, 'rain', 'rain_gauge', 'number', 'mm', 'Total rainfall of the gauge.'],
  [63, 'rain_rate', 'rain_gauge', 'number', 'mm/h', 'Current rain rate.'],
  [64, 'wind_speed', 'anemometer', 'number', 'm/s', 'Speed of the wind.'],
  [65, 'wind_gust', 'anemometer', 'number', 'm/s', 'Recent maximum wind speed (gust).'],
  [66, 'wind_direction', 'wind_vane', 'number', 'deg', 'Direction from which the wind blows; 0 is north, 90 east.'],
  [67, 'solar_radiation', 'pyranometer', 'number', 'W/m2', 'Solar irradiance on a surface.'],
  [68, 'uv_index', 'ultraviolet', 'number', '{UVI}', 'Strength of ultraviolet light.'],
  [69, 'par', 'light', 'number', 'umol/m2/s', 'Photosynthetically active radiation.'],
  [70, 'leak', 'leak', 'boolean', '', 'True while a water leak is detected.'],
  [71, 'smoke', 'smoke', 'boolean', '', 'True while smoke is detected.'],
  [72, 'gas_alarm', 'gas', 'boolean', '', 'True while dangerous gas is detected.'],
  [73, 'tamper', 'tamper', 'boolean', '', 'True after the device was opened or moved (tamper).'],
  [74, 'alarm', 'alarm', 'boolean', '', 'True while the device raises an alarm.'],
  [75, 'fault', 'fault', 'boolean', '', 'True while the device reports a fault.'],
  [76, 'error_code', 'fault', 'integer', '', 'Fault code of the manufacturer; 0 means no fault.'],
  [77, 'voltage', 'electricity', 'number', 'V', 'Electric voltage.'],
  [78, 'current', 'electricity', 'number', 'A', 'Electric current.'],
  [79, 'power', 'electricity', 'number', 'W', 'Active electric power.'],
  [80, 'power', 'electricity', 'number', 'kW', 'Active electric power in kilowatts.'],
  [81, 'apparent_power', 'electricity', 'number', 'V.A', 'Apparent electric power.'],
  [82, 'reactive_power', 'electricity', 'number', 'V.A{reactive}', 'Reactive electric power.'],
  [83, 'energy', 'meter', 'number', 'kW.h', 'Total electric energy of the meter.'],
  [84, 'energy_exported', 'meter', 'number', 'kW.h', 'Total exported electric energy of the meter.'],
  [85, 'frequency', 'electricity', 'number', 'Hz', 'Frequency of the mains.'],
  [86, 'power_factor', 'electricity', 'number', '1', 'Power factor: active divided by apparent power, -1 to 1.'],
  [87, 'rssi', 'radio', 'number', 'dB{mW}', 'Strength of the received radio signal.'],
  [88, 'snr', 'radio', 'number', 'dB', 'Signal-to-noise ratio of the received radio signal.'],
  [89, 'vibration', 'vibration', 'number', 'mm/s', 'Speed of vibration, root mean square.'],
  [90, 'acceleration', 'accelerometer', 'number', 'm/s2', 'Acceleration.'],
  [91, 'distance', 'distance', 'number', 'm', 'Distance to the nearest object.'],
  [92, 'distance', 'distance', 'number', 'mm', 'Distance to the nearest object in millimetres.'],
  [93, 'weight', 'scale', 'number', 'kg', 'Weight on the scale.'],
  [94, 'latitude', 'position', 'number', 'deg', 'Degrees north of the equator (WGS 84).'],
  [95, 'longitude', 'position', 'number', 'deg', 'Degrees east of Greenwich (WGS 84).'],
  [96, 'altitude', 'position', 'number', 'm', 'Height above sea level.'],
  [97, 'speed', 'speed', 'number', 'km/h', 'Speed over the ground.'],
  [98, 'heading', 'position', 'number', 'deg', 'Direction of travel; 0 is north, 90 east.'],
  [99, 'location', 'position', 'json', '', 'Position: an object with latitude and longitude.'],
  [100, 'tilt', 'inclinometer', 'number', 'deg', 'Tilt angle from the horizontal.'],
  [101, 'count', 'counter', 'integer', '{count}', 'Pulses or pieces since the counter was reset.'],
  [102, 'state', 'state', 'string', '', 'Status text of the device.'],
  [103, 'online', 'state', 'boolean', '', 'True while the device is reachable.'],
  [104, 'uptime', 'state', 'number', 's', 'Time since the device started.'],
  [105, 'operating_hours', 'meter', 'number', 'h', 'Operating time of the machine.'],
  [106, 'firmware_version', 'state', 'string', '', 'Version of the software on the device.'],
  [107, 'parking_occupied', 'parking', 'boolean', '', 'True while a vehicle is present.'],
  [108, 'presence_distance', 'radar', 'number', 'm', 'Distance to the nearest person.'],
  [109, 'resistance', 'electricity', 'number', 'Ohm', 'Electric resistance.'],
  [110, 'analog_input', 'input', 'number', '', 'Value of an analog input as scaled by the device.'],
  [111, 'digital_input', 'input', 'boolean', '', 'True while the input is on.'],
  [112, 'digital_output', 'output', 'boolean', '', 'True while the output is on.'],
];

/** A normalized key of the system. */
export interface SystemKey {
  readonly id: string;
  readonly name: string;
}

/** A sensor template of the system. */
export interface SystemTemplate {
  readonly id: string;
  readonly keyNameId: string;
  readonly sensorType: string;
  readonly valueType: ValueType;
  readonly unitMeasurementId: string;
  readonly description: string;
}

/** The system keys. Their ids never change. */
export const SYSTEM_KEYS: readonly SystemKey[] = ROWS.filter(([number, key]) => findFirstNumber(key) === number).map(
  ([number, name]) => ({ id: getKeyId(number), name }),
);

/** The system templates. Their ids never change. */
export const SYSTEM_TEMPLATES: readonly SystemTemplate[] = ROWS.map(
  ([number, key, sensorType, valueType, unitMeasurementId, description]) => ({
    id: formatFixedId('8b00', number),
    keyNameId: getKeyId(findFirstNumber(key)),
    sensorType,
    valueType,
    unitMeasurementId,
    description,
  }),
);

/** Returns the number of the first row of a key, from which the id of the key is derived. */
function findFirstNumber(key: string): number {
  return ROWS.find((row) => row[1] === key)?.[0] ?? 0;
}

function getKeyId(number: number): string {
  return formatFixedId('8a00', number);
}

// The form is a UUIDv7 with a timestamp far before any that a server generates, so the ids never collide.
function formatFixedId(variant: string, number: number): string {
  return `01800000-0000-7000-${variant}-${number.toString(16).padStart(12, '0')}`;
}
