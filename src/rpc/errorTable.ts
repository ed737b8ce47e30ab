import { status } from '@grpc/grpc-js';
import { DomainError, type ErrorKind, type Violation } from '../kernel/errors';

/** The status of each kind of failure on each protocol. */
export const STATUS_OF: Readonly<Record<ErrorKind, { readonly grpc: status; readonly http: number }>> = {
  unauthenticated: { grpc: status.UNAUTHENTICATED, http: 401 },
  permission_denied: { grpc: status.PERMISSION_DENIED, http: 403 },
  invalid_argument: { grpc: status.INVALID_ARGUMENT, http: 400 },
  not_found: { grpc: status.NOT_FOUND, http: 404 },
  conflict: { grpc: status.FAILED_PRECONDITION, http: 409 },
  already_exists: { grpc: status.ALREADY_EXISTS, http: 409 },
  exhausted: { grpc: status.RESOURCE_EXHAUSTED, http: 429 },
  changed_meanwhile: { grpc: status.ABORTED, http: 412 },
  too_large: { grpc: status.RESOURCE_EXHAUSTED, http: 413 },
  unsupported_media_type: { grpc: status.INVALID_ARGUMENT, http: 415 },
  method_not_allowed: { grpc: status.UNIMPLEMENTED, http: 405 },
  not_acceptable: { grpc: status.INVALID_ARGUMENT, http: 406 },
  range_not_satisfiable: { grpc: status.OUT_OF_RANGE, http: 416 },
  out_of_range: { grpc: status.OUT_OF_RANGE, http: 410 },
  unavailable: { grpc: status.UNAVAILABLE, http: 503 },
  cancelled: { grpc: status.CANCELLED, http: 499 },
  deadline_exceeded: { grpc: status.DEADLINE_EXCEEDED, http: 504 },
  request_timeout: { grpc: status.DEADLINE_EXCEEDED, http: 408 },
  unimplemented: { grpc: status.UNIMPLEMENTED, http: 404 },
  internal: { grpc: status.INTERNAL, http: 500 },
};

/** A failure as a caller may see it. */
export interface WireError {
  readonly grpc: status;
  readonly http: number;
  readonly reason: string;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  readonly retryAfterMs: number | undefined;
  /** Whether nobody knows if it was done: who tries again has to look first. */
  readonly isInDoubt: boolean;
  readonly requestId: string;
  /** For the log alone; undefined where the caller was told everything. */
  readonly cause: unknown;
}

/** Turns any failure into what the caller may see. Of an unknown one it sees only the request id. */
export function toWire(error: unknown, requestId: string): WireError {
  if (!(error instanceof DomainError) || error.kind === 'internal') return hidden(error, requestId);
  const { reason, message, metadata, violations, retryAfterMs, isInDoubt, cause } = error;
  return { ...STATUS_OF[error.kind], reason, message, metadata, violations, retryAfterMs, isInDoubt, requestId, cause };
}

function hidden(cause: unknown, requestId: string): WireError {
  const message = `something went wrong on the server; its log names the cause under request ${requestId}`;
  return { ...STATUS_OF.internal, reason: 'internal', message, metadata: {}, violations: [], retryAfterMs: undefined, isInDoubt: false, requestId, cause };
}
