import type { KeyIdentity } from '../kernel/principal';

/** What the audit trail is told of a call. Holds names and ids, never a value. */
export interface AuditedCall {
  /** `/package.Service/Method`. */
  readonly method: string;
  readonly requestId: string;
  /** The caller's address without the port. */
  readonly peer: string;
  /** Undefined: no key was recognised. */
  readonly key: KeyIdentity | undefined;
  /** The beginning of a well-formed key that is not known here; empty otherwise. */
  readonly keyPrefix: string;
  /** What it is done to, as far as the request says; empty: nothing that has an id. */
  readonly resource: string;
  /** The names of the fields that were given. */
  readonly fields: readonly string[];
  /** It is done to the installation, not to the organization of the key: what only an admin key may do. */
  readonly ofInstallation: boolean;
}

/** How it ended. */
export interface AuditedEnd {
  /** `unknown`: the database went away during the commit. */
  readonly outcome: 'succeeded' | 'refused' | 'failed' | 'unknown';
  /** The reason that the caller was told; empty for success. */
  readonly reason: string;
  /** What it was done to, with what the answer added, as the id of what was created. */
  readonly resource: string;
}

/** A change that has begun; only its auditor looks inside. */
export interface Intent {
  readonly id: string;
}

/** Who keeps the audit trail; the edge needs it, app.ts hands it in. */
export interface Auditor {
  /** Something is about to be changed: resolves once nothing that is stored later can be on disk without that. Rejects if it cannot be written: then nothing may be changed. */
  begin(call: AuditedCall): Promise<Intent>;
  /** How that ended; written down soon after. */
  end(intent: Intent, end: AuditedEnd): void;
  /** A call that was refused before anything began, or a stream that was opened; written down soon after. */
  note(call: AuditedCall, end: AuditedEnd): void;
}
