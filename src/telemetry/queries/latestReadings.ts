import type { Database } from '../../database';
import { validationFailed } from '../../kernel/errors';
import { type LatestOfSensor, LatestQueryRepository } from '../readings/latestQueryRepository';
import { RefusedValueRepository, type RefusedValues } from '../readings/refusedValueRepository';
import { sizeOfReading } from './readingSize';

/** A sensor with what it showed last, and what could not be taken for it. */
export interface LatestReading extends LatestOfSensor {
  readonly refused: RefusedValues | undefined;
}

const MOST_SENSORS = 2000;
// As they are sent. Ordinary clients take 4 MiB.
const MOST_BYTES = 2 * 1024 * 1024;

/** What sensors showed last. */
export class LatestReadings {
  private readonly latest: LatestQueryRepository;
  private readonly refused: RefusedValueRepository;

  constructor({ database }: { readonly database: Database }) {
    this.latest = new LatestQueryRepository(database.db);
    this.refused = new RefusedValueRepository(database.db);
  }

  /** The sensors, then those of the devices, each once. Throws `sensor_not_found`, `device_not_found`, and `validation_failed` for too many or too much. */
  async query(organizationId: string, { sensorIds, deviceIds }: { readonly sensorIds: readonly string[]; readonly deviceIds: readonly string[] }): Promise<LatestReading[]> {
    const named = sensorIds.length > 0 ? await this.latest.ofSensors(organizationId, sensorIds) : [];
    const owned = deviceIds.length > 0 ? await this.latest.ofDevices(organizationId, deviceIds, MOST_SENSORS + 1) : [];
    const sensors = [...new Map([...named, ...owned].map((sensor) => [sensor.sensorId, sensor])).values()];
    if (sensors.length > MOST_SENSORS) throw validationFailed([{ field: 'deviceIds', description: `have more than ${MOST_SENSORS} sensors together; ask for fewer devices at once` }]);
    if (sizeOf(sensors) > MOST_BYTES) throw validationFailed([{ field: deviceIds.length > 0 ? 'deviceIds' : 'sensorIds', description: 'showed last values of more than 2 MiB together; ask for fewer at once' }]);
    const refused = new Map((await this.refused.find(organizationId, sensors.map(({ sensorId }) => sensorId))).map((values) => [values.sensorId, values]));
    return sensors.map((sensor) => ({ ...sensor, refused: refused.get(sensor.sensorId) }));
  }
}

function sizeOf(sensors: readonly LatestOfSensor[]): number {
  return sensors.reduce((sum, { last }) => sum + (last && typeof last.value !== 'number' ? sizeOfReading(last) : 0), 0);
}
