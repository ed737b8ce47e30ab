import type { Db } from '../../database';
import { notFound } from '../../kernel/errors';
import type { DeviceScope } from '../../kernel/resourceScope';
import { splitIntoBatches } from '../../kernel/splitIntoBatches';

/** A sensor and the number of its series. */
export interface SensorSeries {
  readonly sensorId: string;
  readonly number: number;
}

// Below the limits of PostgreSQL and SQLite for parameters of one statement.
const VALUE_BATCH_SIZE = 500;

// The sensors of a batch are read together: up to some thousand.
const DEVICE_BATCH_SIZE = 50;

/** The columns of SensorSeries. In all queries, `s` is the alias of `sensors` and `r` of `reading_series`. */
const COLUMNS = { sensorId: 's.id', number: 'r.number' };

/**
 * Reads the sensors in the scope of a stream of readings. A series is the number under which a sensor's readings are.
 */
export class StreamScopeRepository {
  constructor(private readonly db: Db) {}

  /** Throws `sensor_not_found` or `device_not_found` for the first id that does not exist. */
  async assertExist(organizationId: string, sensorIds: readonly string[], deviceIds: readonly string[]): Promise<void> {
    for (const [table, resource, ids] of [
      ['sensors', 'sensor', sensorIds],
      ['digital_devices', 'device', deviceIds],
    ] as const) {
      const rows: { id: string }[] =
        ids.length === 0
          ? []
          : await this.db
              .knex(`${table} as t`)
              .where('t.organization_id', organizationId)
              .whereIn('t.id', [...ids])
              .select('t.id');
      const existingIds = new Set(rows.map(({ id }) => id));
      const missingId = ids.find((id) => !existingIds.has(id));
      if (missingId !== undefined) throw notFound(resource, missingId);
    }
  }

  /** Returns the sensors that belong to one of these devices. */
  async filterByDevices(
    organizationId: string,
    sensorIds: readonly string[],
    deviceIds: readonly string[],
  ): Promise<Set<string>> {
    const matchingIds = new Set<string>();
    for (const batch of splitIntoBatches(sensorIds, VALUE_BATCH_SIZE)) {
      const rows: { id: string }[] = await this.db
        .knex('sensors as s')
        .where('s.organization_id', organizationId)
        .whereIn('s.id', batch)
        .whereIn('s.device_id', [...deviceIds])
        .select('s.id');
      for (const { id } of rows) matchingIds.add(id);
    }
    return matchingIds;
  }

  /** Lists the series of these sensors, at most 500. */
  async listBySensors(organizationId: string, sensorIds: readonly string[]): Promise<SensorSeries[]> {
    return await this.querySeries(organizationId)
      .whereIn('s.id', [...sensorIds])
      .select<SensorSeries[]>(COLUMNS);
  }

  /** Lists the series of all sensors of a device. */
  async listByDevice(organizationId: string, deviceId: string): Promise<SensorSeries[]> {
    return await this.querySeries(organizationId)
      .where('s.device_id', deviceId)
      .orderBy('s.position')
      .select<SensorSeries[]>(COLUMNS);
  }

  /** Lists the devices of these sensors. Deleted sensors are omitted. */
  async listDevicesOfSensors(
    organizationId: string,
    sensorIds: readonly string[],
  ): Promise<{ readonly sensorId: string; readonly deviceId: string }[]> {
    const found: { sensorId: string; deviceId: string }[] = [];
    for (const batch of splitIntoBatches(sensorIds, VALUE_BATCH_SIZE)) {
      found.push(
        ...(await this.db
          .knex('sensors as s')
          .where('s.organization_id', organizationId)
          .whereIn('s.id', batch)
          .select<{ sensorId: string; deviceId: string }[]>({ sensorId: 's.id', deviceId: 's.device_id' })),
      );
    }
    return found;
  }

  /**
   * Lists the devices that a limited API key may currently access, in batches, each device once: the devices that its
   * scope names, then those bound to the connections that its scope names.
   */
  async *listAccessibleDevices(organizationId: string, keyScope: DeviceScope): AsyncGenerator<readonly string[]> {
    yield* splitIntoBatches([...keyScope.ids], DEVICE_BATCH_SIZE);
    for (const connectionId of keyScope.connectionIds) {
      for (let after = ''; ;) {
        const page = await this.listBoundDevices(organizationId, connectionId, after);
        yield page.map(({ deviceId }) => deviceId).filter((id) => !keyScope.ids.has(id));
        if (page.length < DEVICE_BATCH_SIZE) break;
        after = page.at(-1)?.clientDeviceId ?? '';
      }
    }
  }

  /** Lists the series of all sensors of these devices. */
  async listByDevices(organizationId: string, deviceIds: readonly string[]): Promise<SensorSeries[]> {
    return await this.querySeries(organizationId)
      .whereIn('s.device_id', [...deviceIds])
      .select<SensorSeries[]>(COLUMNS);
  }

  /** Lists at most `limit` series of the organization with a number greater than `after`, sorted by number. */
  async listAll(organizationId: string, after: number, limit: number): Promise<SensorSeries[]> {
    const query = this.db
      .knex('reading_series as r')
      .innerJoin('sensors as s', 's.id', 'r.sensor_id')
      .where('r.organization_id', organizationId)
      .where('r.number', '>', after);
    return await query.orderBy('r.number').limit(limit).select<SensorSeries[]>(COLUMNS);
  }

  /**
   * Lists the devices that are bound to a connection and have a client device id after `after`: at most one batch,
   * sorted.
   */
  private async listBoundDevices(
    organizationId: string,
    connectionId: string,
    after: string,
  ): Promise<{ readonly deviceId: string; readonly clientDeviceId: string }[]> {
    const query = this.db
      .knex('physical_devices as p')
      .where('p.organization_id', organizationId)
      .where('p.connection_id', connectionId)
      .where('p.client_device_id', '>', after);
    return await query
      .orderBy('p.client_device_id')
      .limit(DEVICE_BATCH_SIZE)
      .select<{ deviceId: string; clientDeviceId: string }[]>({
        deviceId: 'p.device_id',
        clientDeviceId: 'p.client_device_id',
      });
  }

  /**
   * Builds the query for the series of an organization's sensors. The caller adds a condition on the sensors, for
   * example `s.device_id`, and selects COLUMNS. Starts from the sensors, because it must not scan all series of the
   * organization.
   */
  private querySeries(organizationId: string) {
    return this.db
      .knex('sensors as s')
      .innerJoin('reading_series as r', 'r.sensor_id', 's.id')
      .where('s.organization_id', organizationId);
  }
}
