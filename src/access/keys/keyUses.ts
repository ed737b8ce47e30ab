import { setImmediate } from 'node:timers/promises';
import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import type { KeyUse } from './apiKeyRepository';

const MINUTE = 60_000;
/** As many in one transaction: SQLite writes on the thread that serves. */
const MOST_AT_ONCE = 50;

interface Noted extends KeyUse {
  readonly organizationId: string;
}

/** Remembers when and from where keys are used, to the minute, and writes that down at most once a minute: a call costs no write. */
export class KeyUses {
  private noted = new Map<string, Noted>();
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock; readonly log: Logger }) {}

  /** Notes one use. `address` is the caller's, without the port. */
  note(principal: Principal, address: string): void {
    const now = this.deps.clock.now();
    const at = now - (now % MINUTE);
    const last = this.noted.get(principal.keyId);
    if (last?.at === at && last.address === address) return;
    this.noted.set(principal.keyId, { organizationId: principal.organizationId, at, address });
    if (!this.closed) this.timer ??= setTimeout(() => void this.flush(), MINUTE).unref();
  }

  /** Writes down what was noted since the last time. A failure is logged; what could not be written stays for the next time. */
  async flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    // In the order of ids, so that two servers on one database cannot lock each other out.
    const uses = [...this.noted].toSorted(([a], [b]) => (a < b ? -1 : 1));
    this.noted = new Map();
    while (uses.length > 0) {
      try {
        await this.write(uses.slice(0, MOST_AT_ONCE));
      } catch (error) {
        this.deps.log.warn({ err: error, keys: uses.length }, 'access.key_uses_not_written');
        this.noted = new Map([...uses, ...this.noted]);
        return;
      }
      uses.splice(0, MOST_AT_ONCE);
      if (uses.length > 0) await setImmediate();
    }
  }

  private async write(uses: readonly (readonly [string, Noted])[]): Promise<void> {
    await this.deps.uow.transaction(async ({ apiKeys }) => {
      for (const [id, use] of uses) await apiKeys.noteUse(use.organizationId, id, use);
    });
  }

  /** Writes down the rest and stops. */
  async close(): Promise<void> {
    this.closed = true;
    await this.flush();
  }
}
