import { CommitUnknown, type Database } from '../../database';
import { AuditRepository, type PendingChange } from './auditRepository';

/** Changes whose beginning one transaction writes. */
const MOST_AT_ONCE = 128;
/** Transactions at the same time: while one is on its way to the disk, the next gathers. */
const MOST_AT_A_TIME = 2;

interface Waiting {
  readonly change: PendingChange;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Writes down that changes begin. Those that come together share one transaction: it takes along whatever waits by the time it runs. */
export class Intents {
  private waiting: Waiting[] = [];
  private running = 0;
  /** A transaction was asked for and has not taken what waits yet. */
  private asked = false;

  /** `forget`: of these nobody knows whether they are on disk; nothing was begun. */
  constructor(
    private readonly database: Database,
    private readonly forget: (ids: readonly string[]) => void,
  ) {}

  /** Resolves when nothing that is stored later can be on disk without it. Rejects with the database's error; then it is not, or will be forgotten. */
  async write(change: PendingChange): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.waiting.push({ change, resolve, reject });
      this.next();
    });
  }

  private next(): void {
    if (this.asked || this.waiting.length === 0 || this.running >= MOST_AT_A_TIME) return;
    this.asked = true;
    this.running += 1;
    void this.transaction();
  }

  private async transaction(): Promise<void> {
    let batch: Waiting[] | undefined;
    try {
      await this.database.transactionAhead(async (db) => {
        batch ??= this.take(); // a transaction can be repeated
        await new AuditRepository(db).begin(batch.map(({ change }) => change));
      });
      for (const { resolve } of batch ?? []) resolve();
    } catch (error) {
      batch ??= this.take();
      if (error instanceof CommitUnknown) void this.forgetLater(error, batch);
      for (const { reject } of batch) reject(error);
    }
    this.running -= 1;
    this.next();
  }

  private take(): Waiting[] {
    const batch = this.waiting.splice(0, MOST_AT_ONCE);
    this.asked = false;
    this.next();
    return batch;
  }

  private async forgetLater(error: CommitUnknown, batch: readonly Waiting[]): Promise<void> {
    await error.over;
    this.forget(batch.map(({ change }) => change.subject.id));
  }
}
