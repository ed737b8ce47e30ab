import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import type { KeyUse } from './apiKeyRepository';

const MINUTE = 60_000;

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
    const uses = this.noted;
    if (uses.size === 0) return;
    this.noted = new Map();
    try {
      await this.deps.uow.transaction(async ({ apiKeys }) => {
        // In the order of ids, so that two servers on one database cannot lock each other out.
        for (const [id, use] of [...uses].toSorted(([a], [b]) => (a < b ? -1 : 1))) await apiKeys.noteUse(use.organizationId, id, use);
      });
    } catch (error) {
      this.deps.log.warn({ err: error, keys: uses.size }, 'access.key_uses_not_written');
      this.noted = new Map([...uses, ...this.noted]);
    }
  }

  /** Writes down the rest and stops. */
  async close(): Promise<void> {
    this.closed = true;
    await this.flush();
  }
}
