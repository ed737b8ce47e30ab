import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { readingTimes, type ReadingTimes } from './readingTimes';
import { RetentionRepository } from './retentionRepository';

/** Tells who asks for readings how far back they go. */
export class RetentionTimes {
  private readonly repository: RetentionRepository;

  constructor(private readonly options: { readonly database: Database; readonly clock: Clock }) {
    this.repository = new RetentionRepository(options.database.db);
  }

  /** What the organization keeps now. */
  async of(organizationId: string): Promise<ReadingTimes> {
    const days = await this.repository.find(organizationId);
    return readingTimes(days ?? { retentionDays: 0, thinAfterDays: null }, this.options.clock.now());
  }
}
