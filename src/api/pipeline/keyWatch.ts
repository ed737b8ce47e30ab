import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { apiKeyExpired, ApiKeyRejectedError, type Principal } from '../../kernel/principal';
import { isScopeWithin, type ResourceScope } from '../../kernel/resourceScope';
import { assertScope } from './admission';
import type { Authenticator } from './authenticator';
import type { ServerCall } from './serverCall';

/** A key with open streams. */
interface WatchedKey {
  /** The permissions of the key at the last check. */
  principal: Principal;
  /** The open streams, each with the restrictions of the key when the stream was opened. */
  readonly scopeByCall: Map<ServerCall, ResourceScope | undefined>;
  /**
   * The restrictions at the last added stream. Streams with equal restrictions share this object, so that they are
   * compared only once.
   */
  latestScope: ResourceScope | undefined;
  isBeingChecked: boolean;
  /** Whether another check was requested since the current one began. */
  isRecheckRequested: boolean;
  /** Set if the key expires before the next periodic check. */
  expiryTimer: NodeJS.Timeout | undefined;
}

/** Dependencies and settings of KeyWatch. */
export interface KeyWatchOptions {
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly log: Logger;
  /** The interval between checks, in milliseconds. */
  readonly intervalMs: number;
}

/**
 * Periodically checks the keys that have open streams. It ends each stream that its key is no longer allowed to open,
 * or whose key has become more restricted.
 */
export class KeyWatch {
  private readonly watchedKeys = new Map<string, WatchedKey>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: KeyWatchOptions) {}

  /** Starts to watch the key of a stream. */
  watchStream(call: ServerCall): void {
    const principal = call.context.principal as Principal | undefined;
    if (!principal) return; // the method requires no key
    const watched = this.watchedKeys.get(principal.keyId) ?? {
      principal,
      scopeByCall: new Map(),
      latestScope: principal.resourceScope,
      isBeingChecked: false,
      isRecheckRequested: false,
      expiryTimer: undefined,
    };
    watched.principal = principal;
    if (!isSameScope(watched.latestScope, principal.resourceScope)) watched.latestScope = principal.resourceScope;
    watched.scopeByCall.set(call, watched.latestScope);
    this.watchedKeys.set(principal.keyId, watched);
    this.timer ??= setInterval(() => this.recheckAll(), this.options.intervalMs).unref();
    this.scheduleExpiry(watched);
  }

  /** Stops watching the key of a stream that has ended, unless other streams use it. */
  unwatchStream(call: ServerCall): void {
    const keyId = (call.context.principal as Principal | undefined)?.keyId;
    const watched = keyId === undefined ? undefined : this.watchedKeys.get(keyId);
    if (!watched?.scopeByCall.delete(call)) return;
    if (watched.scopeByCall.size === 0) this.unwatchKey(watched);
    if (this.watchedKeys.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /**
   * Checks one key immediately. If a check of the key is running, which may have read the old permissions already, one
   * more check follows it, even if several were requested.
   */
  recheck(keyId: string): void {
    const watched = this.watchedKeys.get(keyId);
    if (!watched) return;
    this.failIfExpired(watched);
    if (watched.isBeingChecked) watched.isRecheckRequested = true;
    else void this.readAndApply(watched);
  }

  /** Checks the keys of an organization immediately. */
  recheckOrganization(organizationId: string): void {
    for (const [keyId, { principal }] of this.watchedKeys)
      if (principal.organizationId === organizationId) this.recheck(keyId);
  }

  /** Checks all keys immediately. */
  recheckAll(): void {
    for (const keyId of this.watchedKeys.keys()) this.recheck(keyId);
  }

  /**
   * Reads the current permissions of a key and applies them to its streams; repeats that if another check was requested
   * meanwhile.
   */
  private async readAndApply(watched: WatchedKey): Promise<void> {
    watched.isBeingChecked = true;
    do {
      watched.isRecheckRequested = false;
      try {
        this.applyPrincipal(watched, await this.options.authenticator.recheck(watched.principal));
      } catch (error) {
        this.handleCheckError(watched, error);
      }
    } while (watched.isRecheckRequested && watched.scopeByCall.size > 0);
    watched.isBeingChecked = false;
  }

  /**
   * Stores the current permissions of a key and fails the streams that they no longer allow. A stream checked its
   * access when it was opened, so it must also end if the key has become more restricted since then.
   */
  private applyPrincipal(watched: WatchedKey, principal: Principal): void {
    watched.principal = principal;
    this.scheduleExpiry(watched);
    // By the restrictions when a stream was opened. Many streams share one object, which is compared only once.
    const isStillAllowedByScope = new Map<ResourceScope | undefined, boolean>();
    for (const [call, scope] of watched.scopeByCall) {
      const isScopeStillAllowed = isStillAllowedByScope.get(scope) ?? isScopeWithin(scope, principal.resourceScope);
      isStillAllowedByScope.set(scope, isScopeStillAllowed);
      try {
        this.assertAllowed(call, principal, isScopeStillAllowed);
      } catch (error) {
        call.fail(error);
      }
    }
  }

  /**
   * Throws if the key could not open the stream now. `isScopeStillAllowed`: whether the restrictions allow at least
   * everything that they allowed when the stream was opened.
   */
  private assertAllowed({ method, context }: ServerCall, principal: Principal, isScopeStillAllowed: boolean): void {
    this.options.authenticator.assertAddressAllowed(principal, context.peer);
    assertScope(method.descriptor, principal);
    if (!isScopeStillAllowed) {
      throw new ApiKeyRejectedError(
        principal,
        'permission_denied',
        'api_key_restricted',
        `the restrictions of the API key ${principal.keyPrefix} have changed since the stream was opened: open the stream again`,
      );
    }
  }

  /** Fails all streams of a key that is no longer valid. Logs any other error. */
  private handleCheckError({ principal, scopeByCall }: WatchedKey, error: unknown): void {
    if (error instanceof DomainError && (error.kind === 'unauthenticated' || error.kind === 'permission_denied')) {
      for (const call of scopeByCall.keys()) call.fail(error);
    } else {
      // The permissions are unknown, for example because the database is unavailable. The streams stay open until the
      // next check.
      this.options.log.warn({ key_prefix: principal.keyPrefix, err: error }, 'auth.key_revalidation_failed');
    }
  }

  /** Sets a timer if the key expires before the next periodic check. */
  private scheduleExpiry(watched: WatchedKey): void {
    clearTimeout(watched.expiryTimer);
    watched.expiryTimer = undefined;
    const remainingMs = this.getRemainingMs(watched);
    if (watched.scopeByCall.size > 0 && remainingMs < this.options.intervalMs)
      watched.expiryTimer = setTimeout(() => this.failIfExpired(watched), Math.max(1, remainingMs)).unref();
  }

  /**
   * Fails the streams of an expired key. This needs only the time, not the database. Schedules the next expiry check if
   * the key is still valid.
   */
  private failIfExpired(watched: WatchedKey): void {
    const { principal, scopeByCall } = watched;
    if (this.getRemainingMs(watched) > 0) {
      this.scheduleExpiry(watched);
      return;
    }
    // `expiresAt` is set here: a key without it has infinite time left.
    for (const call of scopeByCall.keys()) call.fail(apiKeyExpired(principal, principal.expiresAt ?? 0));
  }

  /** The time until the key expires, in milliseconds; Infinity if it does not expire. */
  private getRemainingMs({ principal }: WatchedKey): number {
    return (principal.expiresAt ?? Infinity) - this.options.clock.now();
  }

  /** Stops watching a key that has no more streams. */
  private unwatchKey(watched: WatchedKey): void {
    clearTimeout(watched.expiryTimer);
    this.watchedKeys.delete(watched.principal.keyId);
  }
}

/** Whether two scopes allow the same resources; undefined means everything. */
function isSameScope(first: ResourceScope | undefined, second: ResourceScope | undefined): boolean {
  return (
    first === second ||
    (first !== undefined && second !== undefined && isScopeWithin(first, second) && isScopeWithin(second, first))
  );
}
