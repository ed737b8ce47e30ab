import { type Db, whereDeviceInside } from '../../database';
import type { Reach } from '../../kernel/reach';

/** Tells which executions lie inside the reach of a limited key, now. Assumes a caller allowed to act in `organizationId`. */
export class ExecutionReachRepository {
  constructor(private readonly db: Db) {}

  /** Those of these executions whose device is inside (a deleted one: where the key names it), and whose command is there and inside. */
  async inside(organizationId: string, { devices, commands }: Reach, ids: readonly string[]): Promise<ReadonlySet<string>> {
    // With the bare column SQLite would rather read all executions of the organization than look for more than one id.
    const query = this.db.knex('executions as e').whereRaw("e.organization_id || '' = ?", organizationId).whereIn('e.id', [...ids]).select('e.id');
    if (commands) {
      // Which commands a key names says nothing of those that are deleted since.
      query.whereIn('e.command_id', (named) => void named.select('c.id').from('commands as c').where('c.organization_id', organizationId).whereIn('c.id', [...commands]));
    }
    const rows: { id: string }[] = await whereDeviceInside(query, 'e.device_id', organizationId, devices);
    return new Set(rows.map(({ id }) => id));
  }
}
