import { CommitOutcomeUnknownError, type Database } from '../../database';
import { AuditRepository, type PendingChange } from './auditRepository';

/** The maximum number of changes per transaction. */
const MAX_BATCH_SIZE = 128;
/** The maximum number of concurrent transactions: while one is written to disk, the next one collects changes. */
const MAX_CONCURRENT_BATCHES = 2;

interface WaitingChange {
  readonly change: PendingChange;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Stores pending changes. Concurrent changes share one transaction, which contains those that wait when it starts. */
export class PendingChangeLog {
  private waitingChanges: WaitingChange[] = [];
  private runningBatches = 0;
  /** A transaction was requested that has not read the waiting changes yet. */
  private isRequested = false;

  /** `onNotStarted` is called with the ids of changes that may be stored although they did not start. */
  constructor(
    private readonly database: Database,
    private readonly onNotStarted: (ids: readonly string[]) => void,
  ) {}

  /**
   * Resolves when it is certain that no later write can be stored without this change. Rejects with the error of the
   * database; then the change is not stored, or is deleted later.
   */
  async write(change: PendingChange): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.waitingChanges.push({ change, resolve, reject });
      this.startNext();
    });
  }

  /** Requests the next transaction, if changes wait and fewer than the maximum number of transactions run. */
  private startNext(): void {
    if (this.isRequested || this.waitingChanges.length === 0 || this.runningBatches >= MAX_CONCURRENT_BATCHES) return;
    this.isRequested = true;
    this.runningBatches += 1;
    void this.writeBatch();
  }

  /**
   * Stores the waiting changes in one transaction. The batch is taken only when the transaction runs, so that changes
   * which arrive while the transaction waits for the database join the batch.
   */
  private async writeBatch(): Promise<void> {
    let batch: WaitingChange[] | undefined;
    try {
      await this.database.transactionWithoutFsync(async (db) => {
        batch ??= this.takeBatch(); // a transaction can run more than once
        await new AuditRepository(db).insertPendingChanges(batch.map(({ change }) => change));
      });
      for (const { resolve } of batch ?? []) resolve();
    } catch (error) {
      batch ??= this.takeBatch();
      if (error instanceof CommitOutcomeUnknownError) void this.reportNotStarted(error, batch);
      for (const { reject } of batch) reject(error);
    }
    this.runningBatches -= 1;
    this.startNext();
  }

  /** Removes the next batch from the waiting changes and requests a transaction for the rest. */
  private takeBatch(): WaitingChange[] {
    const batch = this.waitingChanges.splice(0, MAX_BATCH_SIZE);
    this.isRequested = false;
    this.startNext();
    return batch;
  }

  /** Reports the changes of a transaction whose commit may have succeeded, as soon as that transaction has ended. */
  private async reportNotStarted(error: CommitOutcomeUnknownError, batch: readonly WaitingChange[]): Promise<void> {
    await error.transactionEnded;
    this.onNotStarted(batch.map(({ change }) => change.subject.id));
  }
}
