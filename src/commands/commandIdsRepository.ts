import type { Database, Db } from '../database';

/** Tells which commands there are, of whichever device. */
export class CommandIdsRepository {
  constructor(private readonly db: Db) {}

  /** Those of the ids that the organization has. */
  async known(organizationId: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
    // With the bare column SQLite would rather read all commands of the organization than look for many ids.
    const query = this.db.knex('commands as c').whereRaw("c.organization_id || '' = ?", [organizationId]).whereIn('c.id', [...ids]);
    const rows = await query.select<{ id: string }[]>('c.id');
    return new Set(rows.map(({ id }) => id));
  }
}

/** How to ask which of some ids are no commands of an organization. */
export function missingCommands(database: Database): (organizationId: string, ids: readonly string[]) => Promise<string[]> {
  const commands = new CommandIdsRepository(database.db);
  return async (organizationId, ids) => {
    const known = await commands.known(organizationId, ids);
    return ids.filter((id) => !known.has(id));
  };
}
