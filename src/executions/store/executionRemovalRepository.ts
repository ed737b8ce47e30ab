import type { Db, HotStatement } from '../../database';

/** With its log one costs as much as so many rows. */
const ROWS_OF_ONE = 10;

const REMOVE: HotStatement = {
  name: 'executions.removeSome',
  sql: () => 'delete from executions where id in (select e.id from executions e where e.organization_id = ? limit ?) returning id',
};

/** The executions of an organization that goes, whose devices are gone. */
export class ExecutionRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Removes some executions with their logs, about `most` rows; how many executions. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    return (await this.db.all(REMOVE, [organizationId, Math.ceil(most / ROWS_OF_ONE)])).length;
  }
}
