import type { Db, PreparedStatement } from '../../database';
import { formatValueAsSent } from '../../kernel/inexactNumber';
import { truncate } from '../../kernel/truncate';

/** Statistics about the values of a sensor that were refused because of their type. */
export interface RefusedValues {
  readonly sensorId: string;
  /** The number of refused values since the sensor was created. */
  readonly count: number;
  /** The time of the last refused value, Unix milliseconds. */
  readonly lastAt: number;
  /** The last refused value as JSON text, truncated to 200 characters; a number that JSON cannot hold as it was sent. */
  readonly lastValue: string;
  /** The source path of the last refused value. */
  readonly sourcePath: string;
}

const MAX_VALUE_LENGTH = 200;

const ADD: PreparedStatement = {
  name: 'refusedValues.count',
  sql: () => `
    insert into refused_values (sensor_id, organization_id, refused, last_at, last_value, source_path)
    select s.id, s.organization_id, 1, cast(? as bigint), cast(? as text), cast(? as text) from sensors s where s.organization_id = ? and s.id = ?
    on conflict (sensor_id) do update set refused = refused_values.refused + 1, last_at = excluded.last_at, last_value = excluded.last_value, source_path = excluded.source_path`,
};

/** Counts the values that were refused because they do not have the type of their sensor. */
export class RefusedValueRepository {
  constructor(private readonly db: Db) {}

  /** Counts a refused value that arrived at `receivedAt`, Unix milliseconds. Must run inside a transaction. */
  async add(
    organizationId: string,
    {
      sensorId,
      sourcePath,
      value,
    }: { readonly sensorId: string; readonly sourcePath: string; readonly value: unknown },
    receivedAt: number,
  ): Promise<void> {
    await this.db.all(ADD, [
      receivedAt,
      truncate(formatValueAsSent(value), MAX_VALUE_LENGTH),
      sourcePath,
      organizationId,
      sensorId,
    ]);
  }

  /** Returns the statistics of these sensors, in no particular order. Sensors without refused values are omitted. */
  async find(organizationId: string, sensorIds: readonly string[]): Promise<RefusedValues[]> {
    const { knex } = this.db;
    const query = knex('refused_values as v')
      .where('v.organization_id', organizationId)
      .whereIn('v.sensor_id', [...sensorIds]);
    return await query.select<RefusedValues[]>(
      'v.sensor_id as sensorId',
      'v.refused as count',
      'v.last_at as lastAt',
      'v.last_value as lastValue',
      'v.source_path as sourcePath',
    );
  }
}
