import type { Db, HotStatement } from '../../database';
import type { RetentionDays } from './readingTimes';

const FIND: HotStatement = {
  name: 'organizations.retention',
  sql: () => 'select o.reading_retention_days as "retentionDays", o.thin_readings_after_days as "thinAfterDays" from organizations o where o.id = ?',
};

/** How long organizations keep their readings. */
export class RetentionRepository {
  constructor(private readonly db: Db) {}

  /** Undefined for an organization that does not exist. */
  async find(organizationId: string): Promise<RetentionDays | undefined> {
    const [days] = await this.db.all<RetentionDays>(FIND, [organizationId]);
    return days;
  }
}
