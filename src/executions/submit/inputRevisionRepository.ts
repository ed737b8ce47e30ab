import type { Db, PreparedStatement } from '../../database';

/** The revisions of the records that an execution depends on; null: there is no such record. */
export interface InputRevisions {
  readonly device: number;
  readonly physicalDeviceId: string | null;
  readonly command: number;
  readonly query: number | null;
  readonly connectionId: string | null;
  readonly connection: number | null;
}

const REVISIONS: PreparedStatement = {
  name: 'executions.inputRevisions',
  sql: () => `
    select d.revision as device, p.id as "physicalDeviceId", c.revision as command, q.revision as query, n.id as "connectionId", n.revision as connection
    from digital_devices d
      join commands c on c.organization_id = d.organization_id and c.device_id = d.id and c.id = ?
      left join commands q on q.organization_id = d.organization_id and q.device_id = d.id and q.id = ?
      left join physical_devices p on p.device_id = d.id
      left join connections n on n.organization_id = d.organization_id and n.id = p.connection_id
    where d.organization_id = ? and d.id = ?`,
};

/** Checks whether the inputs of an execution changed, at a fraction of the cost of reading them. */
export class InputRevisionRepository {
  constructor(private readonly db: Db) {}

  /** Returns the current revisions; undefined if the device or its command was deleted. */
  async findRevisions(
    organizationId: string,
    deviceId: string,
    commandId: string,
    queryCommandId: string | undefined,
  ): Promise<InputRevisions | undefined> {
    const [row] = await this.db.all<InputRevisions>(REVISIONS, [
      commandId,
      queryCommandId ?? null,
      organizationId,
      deviceId,
    ]);
    return row;
  }
}
