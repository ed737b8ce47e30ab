import type { Db } from '../database';

/** The name of the counter of all devices of an organization. */
export const ALL_DEVICES = 'devices';

/** Exact device counts per organization and per connection, updated in the transaction that changes the devices. */
export class DeviceCounterRepository {
  constructor(private readonly db: Db) {}

  /**
   * Changes a counter: ALL_DEVICES, or a connection's counter (see getBoundCounterName). Call only inside a
   * transaction.
   */
  async change(organizationId: string, name: string, change: 1 | -1): Promise<void> {
    const { knex } = this.db;
    await knex('organization_counters')
      .insert({ organization_id: organizationId, name, value: change })
      .onConflict(['organization_id', 'name'])
      .merge({ value: knex.raw('organization_counters.value + ?', [change]) });
    if (change < 0 && name !== ALL_DEVICES)
      // Deletes a counter at zero: the connection may be deleted at the same time, and its counter must not remain.
      await knex('organization_counters').where({ organization_id: organizationId, name, value: 0 }).delete();
  }

  /** Counts the devices of an organization. */
  async countAll(organizationId: string): Promise<number> {
    const row = await this.db
      .knex('organization_counters')
      .where({ organization_id: organizationId, name: ALL_DEVICES })
      .first<{ value: number } | undefined>('value');
    return row?.value ?? 0;
  }

  /** Counts the devices that are bound to each of these connections. Connections without devices are omitted. */
  async countBound(organizationId: string, connectionIds: readonly string[]): Promise<Map<string, number>> {
    const connectionIdByCounter = new Map(connectionIds.map((id) => [getBoundCounterName(id), id]));
    const query = this.db
      .knex('organization_counters')
      .where('organization_id', organizationId)
      .whereIn('name', [...connectionIdByCounter.keys()]);
    const rows = await query.select<{ name: string; value: number }[]>('name', 'value');
    return new Map(rows.map(({ name, value }) => [connectionIdByCounter.get(name) ?? '', value]));
  }
}

/** Returns the name of the counter of the devices that are bound to a connection. */
export function getBoundCounterName(connectionId: string): string {
  return `devices:${connectionId}`;
}
