import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { KeyIdentity, Principal } from '../../kernel/principal';
import type { PendingAuditEntry } from './auditor';
import type { CallContext } from './callContext';
import type { CallEndListener } from './callObserver';

/** The context of an open call. Its signal is created on first access, because most calls never need it. */
export class ActiveCall implements CallContext {
  declare principal: Principal;
  requestId = '';
  /** The identity of a key that was recognized and rejected. */
  rejectedKey: KeyIdentity | undefined;
  /** The first characters of a well-formed key that this server does not know; empty otherwise. */
  unknownKeyPrefix = '';
  /** The decoded request message; undefined before it was read. */
  request: unknown;
  /** The key that identifies repeated requests; undefined if absent, or if the method stores no responses. */
  idempotencyKey: string | undefined;
  /** Whether the response is the stored response of an earlier request. */
  isReplay = false;
  /** The parameters in the path of a REST call, by JSON name; set before the request is read. */
  pathParameters: unknown;
  /** The audit entry of the change that has begun. */
  auditEntry: PendingAuditEntry | undefined;
  /** Receives the end of the call. */
  endListener: CallEndListener | undefined;
  organizationId = '';
  /** Whether a header, or the query of an HTTP request, named the organization. */
  isOrganizationNamed = false;
  private controller: AbortController | undefined;
  private firstAbortReason: Error | undefined;

  constructor(
    readonly path: string,
    readonly peer: string,
    readonly log: Logger,
    /** The start of the call on the monotonic clock, in milliseconds. */
    readonly startedAt: number,
  ) {}

  /**
   * The signal that aborts when the call ends early. If the call was aborted before the first access, the new signal is
   * aborted already.
   */
  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.firstAbortReason) this.controller.abort(this.firstAbortReason);
    }
    return this.controller.signal;
  }

  /** The reason why the call was aborted; undefined if it was not. */
  get abortReason(): Error | undefined {
    return this.firstAbortReason;
  }

  /** Signals the handler to stop. Only the first reason is kept. */
  abort(reason: Error): void {
    if (this.firstAbortReason) return;
    this.firstAbortReason = reason;
    this.controller?.abort(reason);
  }
}

/** Creates the error for a call while the server is stopping; the client may retry. */
export function shuttingDown(): DomainError {
  return new DomainError('unavailable', 'shutting_down', 'the server is shutting down; try again in a moment', {
    retryAfterMs: 1000,
  });
}

/** Creates the error for a call whose deadline has passed. */
export function deadlineExceeded(): DomainError {
  return new DomainError(
    'deadline_exceeded',
    'deadline_exceeded',
    'the deadline passed before the response was ready: use a longer deadline',
  );
}

/** Creates the error for a request that was not received completely within the time limit. */
export function requestTimeout(): DomainError {
  const message = 'the request did not arrive completely in time: send it faster, or in smaller parts';
  return new DomainError('request_timeout', 'request_timeout', message);
}

/** Creates the error for a call that the client cancelled, or whose connection closed. */
export function clientCancelled(): DomainError {
  return new DomainError('cancelled', 'cancelled', 'the client cancelled the call');
}
