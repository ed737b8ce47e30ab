import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { computeAgeLimits, type AgeLimits } from './readingTimes';
import { RetentionRepository } from './retentionRepository';

/** Returns the age limits of readings for queries. */
export class RetentionTimes {
  private readonly repository: RetentionRepository;

  constructor(private readonly options: { readonly database: Database; readonly clock: Clock }) {
    this.repository = new RetentionRepository(options.database.db);
  }

  /** Returns the current age limits of an organization. For a missing organization, all readings count as deleted. */
  async get(organizationId: string): Promise<AgeLimits> {
    const days = await this.repository.find(organizationId);
    return computeAgeLimits(days ?? { retentionDays: 0, downsampleAfterDays: null }, this.options.clock.now());
  }
}
