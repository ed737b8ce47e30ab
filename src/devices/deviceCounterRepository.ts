import type { Db } from '../database';

/** The counter of all devices of an organization. */
export const ALL_DEVICES = 'devices';

/** Exact numbers of devices, kept in the transaction that changes them: of an organization, and of those bound to each connection. */
export class DeviceCounterRepository {
  constructor(private readonly db: Db) {}

  /** Changes a counter: ALL_DEVICES, or that of a connection by boundTo. Only inside a transaction. */
  async change(organizationId: string, name: string, change: 1 | -1): Promise<void> {
    const { knex } = this.db;
    await knex('organization_counters')
      .insert({ organization_id: organizationId, name, value: change })
      .onConflict(['organization_id', 'name'])
      .merge({ value: knex.raw('organization_counters.value + ?', [change]) });
    if (change < 0 && name !== ALL_DEVICES) await knex('organization_counters').where({ organization_id: organizationId, name, value: 0 }).delete(); // its connection may go
  }

  /** How many devices an organization has. */
  async total(organizationId: string): Promise<number> {
    const row = await this.db.knex('organization_counters').where({ organization_id: organizationId, name: ALL_DEVICES }).first<{ value: number } | undefined>('value');
    return row?.value ?? 0;
  }

  /** How many devices are bound to each of these connections; those with none are left out. */
  async boundTo(organizationId: string, connectionIds: readonly string[]): Promise<Map<string, number>> {
    const connectionOf = new Map(connectionIds.map((id) => [boundTo(id), id]));
    const query = this.db.knex('organization_counters').where('organization_id', organizationId).whereIn('name', [...connectionOf.keys()]);
    const rows = await query.select<{ name: string; value: number }[]>('name', 'value');
    return new Map(rows.map(({ name, value }) => [connectionOf.get(name) ?? '', value]));
  }
}

/** The counter of the devices that are bound to a connection. */
export function boundTo(connectionId: string): string {
  return `devices:${connectionId}`;
}
