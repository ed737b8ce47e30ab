import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { keyExpired, KeyRefused, type Principal } from '../../kernel/principal';
import { isWithinReach, type Reach } from '../../kernel/reach';
import { requireScope } from '../admission';
import type { Authenticator } from '../authenticator';
import type { ServedCall } from './servedCall';

interface Watched {
  /** What it could do when somebody last looked. */
  principal: Principal;
  /** Each with what the key reached when it was opened. */
  readonly calls: Map<ServedCall, Reach | undefined>;
  /** Of the last call that was added: while nothing changes it stands for those of all, so that they are compared once. */
  reach: Reach | undefined;
  /** Somebody looks now; `again`: it was changed since that began. */
  looking: 'no' | 'yes' | 'again';
  /** Set while the key ends before it would be looked at again. */
  ending: NodeJS.Timeout | undefined;
}

/** What the watch stands on. */
export interface KeyWatchOptions {
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly log: Logger;
  readonly everyMs: number;
}

/** Looks again and again at the keys that have open streams, and ends each stream that its key could not open any more, or not as it is. */
export class KeyWatch {
  private readonly keys = new Map<string, Watched>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: KeyWatchOptions) {}

  /** Watches the key of a stream. */
  add(call: ServedCall): void {
    const principal = call.context.principal as Principal | undefined;
    if (!principal) return; // the method needs no key
    const watched = this.keys.get(principal.keyId) ?? { principal, calls: new Map(), reach: principal.reach, looking: 'no', ending: undefined };
    watched.principal = principal;
    if (!isSameReach(watched.reach, principal.reach)) watched.reach = principal.reach;
    watched.calls.set(call, watched.reach);
    this.keys.set(principal.keyId, watched);
    this.timer ??= setInterval(() => this.recheckAll(), this.options.everyMs).unref();
    this.lookAtEnd(watched);
  }

  /** The stream has ended. */
  delete(call: ServedCall): void {
    const keyId = (call.context.principal as Principal | undefined)?.keyId;
    const watched = keyId === undefined ? undefined : this.keys.get(keyId);
    if (!watched?.calls.delete(call)) return;
    if (watched.calls.size === 0) this.forget(watched);
    if (this.keys.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** Looks at one key now; while somebody looks already, once more after that, however often it is asked for. */
  recheck(keyId: string): void {
    const watched = this.keys.get(keyId);
    if (!watched) return;
    this.endIfOver(watched);
    if (watched.looking === 'no') void this.look(watched);
    else watched.looking = 'again';
  }

  /** Looks at the keys of an organization now. */
  recheckOrganization(organizationId: string): void {
    for (const [keyId, { principal }] of this.keys) if (principal.organizationId === organizationId) this.recheck(keyId);
  }

  /** Looks at all keys now. */
  recheckAll(): void {
    for (const keyId of this.keys.keys()) this.recheck(keyId);
  }

  private async look(watched: Watched): Promise<void> {
    watched.looking = 'yes';
    try {
      this.compare(watched, await this.options.authenticator.recheck(watched.principal));
    } catch (error) {
      this.failed(watched, error);
    }
    const isOver = this.isSeen(watched) || watched.calls.size === 0;
    watched.looking = 'no';
    if (!isOver) void this.look(watched);
  }

  /** Nobody asked for another look since this one began. */
  private isSeen({ looking }: Watched): boolean {
    return looking !== 'again';
  }

  /** The key still passes: which of its streams do too? */
  private compare(watched: Watched, principal: Principal): void {
    watched.principal = principal;
    this.lookAtEnd(watched);
    const compared = new Map<Reach | undefined, boolean>();
    for (const [call, reach] of watched.calls) {
      const isWithin = compared.get(reach) ?? isWithinReach(reach, principal.reach);
      compared.set(reach, isWithin);
      try {
        this.requireAllowed(call, principal, isWithin);
      } catch (error) {
        call.fail(error);
      }
    }
  }

  private requireAllowed({ method, context }: ServedCall, principal: Principal, isWithin: boolean): void {
    this.options.authenticator.requireAllowed(principal, context.peer);
    requireScope(method.facts, principal);
    if (!isWithin) {
      throw new KeyRefused(principal, 'permission_denied', 'api_key_restricted', `the API key ${principal.keyPrefix} is limited to less than when the stream was opened; open it again`);
    }
  }

  private failed({ principal, calls }: Watched, error: unknown): void {
    if (error instanceof DomainError && (error.kind === 'unauthenticated' || error.kind === 'permission_denied')) {
      for (const call of calls.keys()) call.fail(error);
    } else {
      // Not knowing is no reason to end the streams: it is looked at again in a moment.
      this.options.log.warn({ key_prefix: principal.keyPrefix, err: error }, 'rpc.key_recheck_failed');
    }
  }

  /** A key that ends before its turn is looked at when it ends. */
  private lookAtEnd(watched: Watched): void {
    clearTimeout(watched.ending);
    watched.ending = undefined;
    const left = this.timeLeft(watched);
    if (watched.calls.size > 0 && left < this.options.everyMs) watched.ending = setTimeout(() => this.endIfOver(watched), Math.max(1, left)).unref();
  }

  /** That a key has ended the clock knows without the database. */
  private endIfOver(watched: Watched): void {
    const { principal, calls } = watched;
    if (this.timeLeft(watched) > 0) this.lookAtEnd(watched);
    else for (const call of calls.keys()) call.fail(keyExpired(principal, principal.expiresAt ?? 0));
  }

  private timeLeft({ principal }: Watched): number {
    return (principal.expiresAt ?? Infinity) - this.options.clock.now();
  }

  private forget(watched: Watched): void {
    clearTimeout(watched.ending);
    this.keys.delete(watched.principal.keyId);
  }
}

function isSameReach(one: Reach | undefined, other: Reach | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && isWithinReach(one, other) && isWithinReach(other, one));
}
