import type { Db, PreparedStatement } from '../../database';
import type { RetentionDays } from './readingTimes';

const FIND: PreparedStatement = {
  name: 'organizations.retention',
  sql: () =>
    'select o.reading_retention_days as "retentionDays", o.thin_readings_after_days as "downsampleAfterDays" from organizations o where o.id = ?',
};

/** Reads the retention of organizations. */
export class RetentionRepository {
  constructor(private readonly db: Db) {}

  /** Returns undefined if the organization does not exist. */
  async find(organizationId: string): Promise<RetentionDays | undefined> {
    const [days] = await this.db.all<RetentionDays>(FIND, [organizationId]);
    return days;
  }
}
