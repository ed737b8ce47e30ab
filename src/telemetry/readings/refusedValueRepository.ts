import type { Db, HotStatement } from '../../database';
import { cut } from '../../kernel/shortened';

/** Values that came for a sensor and are none of its type. */
export interface RefusedValues {
  readonly sensorId: string;
  /** How many since the sensor is there. */
  readonly count: number;
  /** When the last one came, Unix milliseconds. */
  readonly lastAt: number;
  /** The last one as JSON text, cut after 200 characters. */
  readonly lastValue: string;
  /** Where it came from. */
  readonly sourcePath: string;
}

const LONGEST_VALUE = 200;

const COUNT: HotStatement = {
  name: 'refusedValues.count',
  sql: () => `
    insert into refused_values (sensor_id, organization_id, refused, last_at, last_value, source_path)
    select s.id, s.organization_id, 1, cast(? as bigint), cast(? as text), cast(? as text) from sensors s where s.organization_id = ? and s.id = ?
    on conflict (sensor_id) do update set refused = refused_values.refused + 1, last_at = excluded.last_at, last_value = excluded.last_value, source_path = excluded.source_path`,
};

/** Counts the values that could not be stored. */
export class RefusedValueRepository {
  constructor(private readonly db: Db) {}

  /** One more came for this sensor at `at`, Unix milliseconds. Only inside a transaction. */
  async count(organizationId: string, { sensorId, sourcePath, value }: { readonly sensorId: string; readonly sourcePath: string; readonly value: unknown }, at: number): Promise<void> {
    await this.db.all(COUNT, [at, cut(JSON.stringify(value), LONGEST_VALUE), sourcePath, organizationId, sensorId]);
  }

  /** Those of these sensors that any came for, in no order. */
  async find(organizationId: string, sensorIds: readonly string[]): Promise<RefusedValues[]> {
    const { knex } = this.db;
    const query = knex('refused_values as v').where('v.organization_id', organizationId).whereIn('v.sensor_id', [...sensorIds]);
    return await query.select<RefusedValues[]>('v.sensor_id as sensorId', 'v.refused as count', 'v.last_at as lastAt', 'v.last_value as lastValue', 'v.source_path as sourcePath');
  }
}
