import type { Database } from '../../database';
import { validationFailed } from '../../kernel/errors';
import { type SensorWithLatest, LatestQueryRepository } from '../readings/latestQueryRepository';
import { RefusedValueRepository, type RefusedValues } from '../readings/refusedValueRepository';
import { estimateReadingSize } from './readingSize';

/** A sensor with its latest value and its refused values. */
export interface LatestReading extends SensorWithLatest {
  readonly refused: RefusedValues | undefined;
}

const MAX_SENSORS_PER_CALL = 2000;
// The maximum size of the values as they are sent. Typical clients accept messages of up to 4 MiB.
const MAX_BYTES = 2 * 1024 * 1024;

/** Queries the latest values of sensors. */
export class LatestReadings {
  private readonly latest: LatestQueryRepository;
  private readonly refused: RefusedValueRepository;

  constructor({ database }: { readonly database: Database }) {
    this.latest = new LatestQueryRepository(database.db);
    this.refused = new RefusedValueRepository(database.db);
  }

  /**
   * Returns the named sensors, then those of the devices, each sensor once. Throws `sensor_not_found`,
   * `device_not_found`, and `validation_failed` for too many sensors or too large values.
   */
  async query(
    organizationId: string,
    { sensorIds, deviceIds }: { readonly sensorIds: readonly string[]; readonly deviceIds: readonly string[] },
  ): Promise<LatestReading[]> {
    const named = sensorIds.length > 0 ? await this.latest.listBySensors(organizationId, sensorIds) : [];
    // One more than allowed, so that too many sensors are noticed below.
    const ofDevices =
      deviceIds.length > 0 ? await this.latest.listByDevices(organizationId, deviceIds, MAX_SENSORS_PER_CALL + 1) : [];
    const sensors = [...new Map([...named, ...ofDevices].map((sensor) => [sensor.sensorId, sensor])).values()];
    if (sensors.length > MAX_SENSORS_PER_CALL)
      throw validationFailed([
        {
          field: 'deviceIds',
          description: `have more than ${MAX_SENSORS_PER_CALL} sensors in total: request fewer devices per call`,
        },
      ]);
    if (getSize(sensors) > MAX_BYTES)
      throw validationFailed([
        {
          field: deviceIds.length > 0 ? 'deviceIds' : 'sensorIds',
          description: 'have latest values of more than 2 MiB in total: request fewer per call',
        },
      ]);
    const refused = await this.refused.find(
      organizationId,
      sensors.map(({ sensorId }) => sensorId),
    );
    const refusedBySensor = new Map(refused.map((values) => [values.sensorId, values]));
    return sensors.map((sensor) => ({ ...sensor, refused: refusedBySensor.get(sensor.sensorId) }));
  }
}

/** Returns the size of the values in bytes as they are sent. Numbers are omitted, because they are small. */
function getSize(sensors: readonly SensorWithLatest[]): number {
  return sensors.reduce(
    (sum, { last }) => sum + (last && typeof last.value !== 'number' ? estimateReadingSize(last) : 0),
    0,
  );
}
