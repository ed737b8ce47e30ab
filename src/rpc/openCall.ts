import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { KeyIdentity, Principal } from '../kernel/principal';
import type { Intent } from './auditor';
import type { CallContext } from './callContext';
import type { CallEnding } from './callObserver';

/** The context of a call while it is open. Its signal is made when somebody first asks for it: most calls end before. */
export class OpenCall implements CallContext {
  declare principal: Principal;
  requestId = '';
  /** A key that was recognised and refused. */
  refusedKey: KeyIdentity | undefined;
  /** The beginning of a well-formed key that is not known here; empty otherwise. */
  unknownKeyPrefix = '';
  /** What the caller asks for, once it was read. */
  request: unknown;
  /** What stands in the path of a REST call, by JSON names; it is there before the request was read. */
  inPath: unknown;
  /** The change that has begun, as the audit trail knows it. */
  intent: Intent | undefined;
  /** Who wants to know how it ends. */
  ending: CallEnding | undefined;
  organizationId = '';
  /** Whether a header named the organization. */
  organizationNamed = false;
  private controller: AbortController | undefined;
  private reason: Error | undefined;

  constructor(
    readonly path: string,
    readonly peer: string,
    readonly log: Logger,
    /** When it began, on the monotonic clock. */
    readonly startedAt: number,
  ) {}

  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.reason) this.controller.abort(this.reason);
    }
    return this.controller.signal;
  }

  /** Why the call was told to end; undefined while it was not. */
  get aborted(): Error | undefined {
    return this.reason;
  }

  /** Tells the handler to end. The first reason stays. */
  abort(reason: Error): void {
    if (this.reason) return;
    this.reason = reason;
    this.controller?.abort(reason);
  }
}

/** The server is stopping; the caller may try again. */
export function shuttingDown(): DomainError {
  return new DomainError('unavailable', 'shutting_down', 'the server is shutting down; try again in a moment', { retryAfterMs: 1000 });
}

/** The caller's deadline passed. */
export function deadlineExceeded(): DomainError {
  return new DomainError('deadline_exceeded', 'deadline_exceeded', 'the deadline of the call passed before the answer was ready; give it more time');
}

/** The caller went away. */
export function callerGone(): DomainError {
  return new DomainError('cancelled', 'cancelled', 'the caller ended the call');
}
