import type { Db, HotStatement } from '../../database';

/** What counts up when something changes that an execution rests on; null: there is none. */
export interface FactRevisions {
  readonly device: number;
  readonly physicalDeviceId: string | null;
  readonly command: number;
  readonly query: number | null;
  readonly connectionId: string | null;
  readonly connection: number | null;
}

const REVISIONS: HotStatement = {
  name: 'executions.factRevisions',
  sql: () => `
    select d.revision as device, p.id as "physicalDeviceId", c.revision as command, q.revision as query, n.id as "connectionId", n.revision as connection
    from digital_devices d
      join commands c on c.organization_id = d.organization_id and c.device_id = d.id and c.id = ?
      left join commands q on q.organization_id = d.organization_id and q.device_id = d.id and q.id = ?
      left join physical_devices p on p.device_id = d.id
      left join connections n on n.organization_id = d.organization_id and n.id = p.connection_id
    where d.organization_id = ? and d.id = ?`,
};

/** Looks once more at what an execution rests on, for a fraction of what reading it costs. */
export class FactRepository {
  constructor(private readonly db: Db) {}

  /** Undefined: the device or its command is gone. */
  async findRevisions(organizationId: string, deviceId: string, commandId: string, queryCommandId: string | undefined): Promise<FactRevisions | undefined> {
    const [row] = await this.db.all<FactRevisions>(REVISIONS, [commandId, queryCommandId ?? null, organizationId, deviceId]);
    return row;
  }
}
