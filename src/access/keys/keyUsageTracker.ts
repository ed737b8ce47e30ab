import { setImmediate } from 'node:timers/promises';
import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';
import { MINUTE_MS } from '../../kernel/timeUnits';
import type { AccessRepositories } from '../accessRepositories';
import type { KeyUse } from './apiKeyRepository';

/** The maximum number of keys per transaction, because SQLite writes on the thread that serves calls. */
const MAX_BATCH_SIZE = 50;

/** The latest use of a key, rounded down to the minute. */
interface RecordedUse extends KeyUse {
  readonly organizationId: string;
}

/**
 * Records when and from where keys are used, to the minute, and stores it at most once a minute, so that a call causes
 * no write.
 */
export class KeyUsageTracker {
  private pendingUseByKeyId = new Map<string, RecordedUse>();
  private timer: NodeJS.Timeout | undefined;
  private isClosed = false;

  constructor(
    private readonly deps: {
      readonly uow: UnitOfWork<AccessRepositories>;
      readonly clock: Clock;
      readonly log: Logger;
    },
  ) {}

  /**
   * Records that a key is used now. Only the latest use of each key is kept, and only its minute, so that repeated
   * calls in the same minute from the same address change nothing. `address`: the caller's address without the port.
   */
  recordUse(principal: Principal, address: string): void {
    const now = this.deps.clock.now();
    const minute = now - (now % MINUTE_MS);
    const pendingUse = this.pendingUseByKeyId.get(principal.keyId);
    if (pendingUse?.at === minute && pendingUse.address === address) return;
    this.pendingUseByKeyId.set(principal.keyId, { organizationId: principal.organizationId, at: minute, address });
    if (!this.isClosed) this.timer ??= setTimeout(() => void this.flush(), MINUTE_MS).unref();
  }

  /**
   * Stores the uses since the last flush. A failure is logged, and the uses are kept for the next flush; a use that was
   * recorded meanwhile replaces the kept use of the same key.
   */
  async flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    // In the order of ids, so that two servers on one database do not deadlock.
    const uses = [...this.pendingUseByKeyId].toSorted(([firstId], [secondId]) => (firstId < secondId ? -1 : 1));
    this.pendingUseByKeyId = new Map();
    while (uses.length > 0) {
      try {
        await this.storeUses(uses.slice(0, MAX_BATCH_SIZE));
      } catch (error) {
        this.deps.log.warn({ err: error, keys: uses.length }, 'auth.last_used_flush_failed');
        this.pendingUseByKeyId = new Map([...uses, ...this.pendingUseByKeyId]);
        return;
      }
      uses.splice(0, MAX_BATCH_SIZE);
      if (uses.length > 0) await setImmediate();
    }
  }

  /** Stores one batch of uses in a transaction. */
  private async storeUses(uses: readonly (readonly [string, RecordedUse])[]): Promise<void> {
    await this.deps.uow.transaction(async ({ apiKeys }) => {
      for (const [id, use] of uses) await apiKeys.storeUse(use.organizationId, id, use);
    });
  }

  /** Stores the remaining uses and stops. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.flush();
  }
}
