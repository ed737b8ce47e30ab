import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';
import type { Authenticator } from '../authenticator';
import type { ServedCall } from './servedCall';

interface Watched {
  readonly principal: Principal;
  readonly calls: Set<ServedCall>;
}

/** Looks again and again at the keys that have open streams, and ends the streams of a key that no longer passes. */
export class KeyWatch {
  private readonly keys = new Map<string, Watched>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly authenticator: Authenticator,
    private readonly log: Logger,
    private readonly everyMs: number,
  ) {}

  /** Watches the key of a stream. */
  add(call: ServedCall): void {
    const principal = call.context.principal as Principal | undefined;
    if (!principal) return; // the method needs no key
    const watched = this.keys.get(principal.keyId) ?? { principal, calls: new Set() };
    watched.calls.add(call);
    this.keys.set(principal.keyId, watched);
    this.timer ??= setInterval(() => this.recheckAll(), this.everyMs).unref();
  }

  /** The stream has ended. */
  delete(call: ServedCall): void {
    const keyId = (call.context.principal as Principal | undefined)?.keyId;
    const watched = keyId === undefined ? undefined : this.keys.get(keyId);
    if (!watched?.calls.delete(call)) return;
    if (watched.calls.size === 0) this.keys.delete(watched.principal.keyId);
    if (this.keys.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** Looks at one key now. */
  recheck(keyId: string): void {
    const watched = this.keys.get(keyId);
    if (!watched) return;
    this.authenticator.recheck(watched.principal).catch((error: unknown) => this.failed(watched, error));
  }

  /** Looks at all keys now. */
  recheckAll(): void {
    for (const keyId of this.keys.keys()) this.recheck(keyId);
  }

  private failed(watched: Watched, error: unknown): void {
    if (error instanceof DomainError && (error.kind === 'unauthenticated' || error.kind === 'permission_denied')) {
      for (const call of watched.calls) call.fail(error);
    } else {
      // Not knowing is no reason to end the streams: it is looked at again in a moment.
      this.log.warn({ key_prefix: watched.principal.keyPrefix, err: error }, 'rpc.key_recheck_failed');
    }
  }
}
