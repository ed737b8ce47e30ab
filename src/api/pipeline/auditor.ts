import type { KeyIdentity } from '../../kernel/principal';

/** A call as the audit trail records it. It contains names and ids, never values of fields. */
export interface AuditedCall {
  /** `/package.Service/Method`. */
  readonly method: string;
  readonly requestId: string;
  /** The client's address without the port. */
  readonly peer: string;
  /** Undefined if no API key was recognized. */
  readonly key: KeyIdentity | undefined;
  /** The first characters of a well-formed key that this server does not know; empty otherwise. */
  readonly keyPrefix: string;
  /** The resource that the call concerns, as far as the request names it; empty if it has no id. */
  readonly resource: string;
  /** The names of the fields that the request sets. */
  readonly fields: readonly string[];
  /** The call concerns the installation, not the organization of the key. Only admin keys may make such calls. */
  readonly isInstallationWide: boolean;
}

/** The outcome of an audited call. */
export interface AuditedEnd {
  /** `unknown`: the database connection was lost during the commit. */
  readonly outcome: 'succeeded' | 'refused' | 'failed' | 'unknown';
  /** The reason in the response to the caller; empty for success. */
  readonly reason: string;
  /** The resource, including what the response added, for example the id of a created record. */
  readonly resource: string;
}

/** An audit entry of a change that has begun. Only the auditor that created it reads more than the id. */
export interface PendingAuditEntry {
  readonly id: string;
}

/** Writes the audit trail. The api module depends on this interface; the composition root (server) passes the implementation in. */
export interface Auditor {
  /**
   * Call this before a change begins. Resolves when nothing that is stored later can reach the disk without this entry.
   * Rejects if the entry cannot be written; then the change must not be made.
   */
  begin(call: AuditedCall): Promise<PendingAuditEntry>;
  /** Records the outcome of a change. It is written in the background. */
  end(entry: PendingAuditEntry, result: AuditedEnd): void;
  /** Records a call that was refused before it began, or a stream that was opened. It is written in the background. */
  recordAttempt(call: AuditedCall, result: AuditedEnd): void;
}
