import { status } from '@grpc/grpc-js';
import { DomainError, type ErrorKind, type Violation } from '../../kernel/errors';

/** The gRPC and HTTP status of each kind of error. */
export const STATUS_BY_KIND: Readonly<Record<ErrorKind, { readonly grpc: status; readonly http: number }>> = {
  unauthenticated: { grpc: status.UNAUTHENTICATED, http: 401 },
  permission_denied: { grpc: status.PERMISSION_DENIED, http: 403 },
  invalid_argument: { grpc: status.INVALID_ARGUMENT, http: 400 },
  not_found: { grpc: status.NOT_FOUND, http: 404 },
  conflict: { grpc: status.FAILED_PRECONDITION, http: 409 },
  already_exists: { grpc: status.ALREADY_EXISTS, http: 409 },
  exhausted: { grpc: status.RESOURCE_EXHAUSTED, http: 429 },
  version_conflict: { grpc: status.ABORTED, http: 412 },
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

/** An error in the form that may be sent to the client. */
export interface WireError {
  readonly grpc: status;
  readonly http: number;
  readonly reason: string;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  readonly retryAfterMs: number | undefined;
  /** Whether it is unknown if the change was stored; the client must check before a retry. */
  readonly isInDoubt: boolean;
  readonly requestId: string;
  /** For the log only; undefined if the client receives all details. */
  readonly cause: unknown;
}

/** Converts any error to the form for the client. For an unexpected error that is only the request id. */
export function toWire(error: unknown, requestId: string): WireError {
  if (!(error instanceof DomainError) || error.kind === 'internal') return toInternalError(error, requestId);
  const { reason, message, metadata, violations, retryAfterMs, isInDoubt, cause } = error;
  return {
    ...STATUS_BY_KIND[error.kind],
    reason,
    message,
    metadata,
    violations,
    retryAfterMs,
    isInDoubt,
    requestId,
    cause,
  };
}

/**
 * Creates the error for the client after an unexpected error: only the request id, because details could reveal data.
 */
function toInternalError(cause: unknown, requestId: string): WireError {
  const message = `internal server error: search the server log for request ${requestId}`;
  return {
    ...STATUS_BY_KIND.internal,
    reason: 'internal',
    message,
    metadata: {},
    violations: [],
    retryAfterMs: undefined,
    isInDoubt: false,
    requestId,
    cause,
  };
}
