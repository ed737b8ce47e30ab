import { status } from '@grpc/grpc-js';
import { DomainError } from '../../kernel/errors';
import { ApiKeyRejectedError, UnknownApiKeyError, type Principal } from '../../kernel/principal';
import { toWire, type WireError } from '../errors/errorTable';
import type { ServerCall } from './serverCall';

/**
 * Which requests are logged at level info: none, failed ones (except those that the client cancelled), or all. Default:
 * `errors`.
 */
export type AccessLog = 'off' | 'errors' | 'all';

/** How a call ended. */
export interface CallOutcome {
  readonly code: status;
  /** The reason in the error response; undefined for success. */
  readonly reason: string | undefined;
  /** The HTTP status of the response; undefined over gRPC. */
  readonly http: number | undefined;
}

const HEALTH_CHECK = '/grpc.health.v1.Health/Check';

/** Replaces the error of an unknown commit outcome for a request with an idempotency key, which is safe to repeat. */
const SAFE_TO_REPEAT = {
  isInDoubt: false,
  message:
    'the connection to the database broke during the commit: send the same request again with the same idempotency key',
};

/** Writes the line of a call that has ended to the access log; at level debug if the log does not contain such calls. */
export function logEnd(
  { context }: ServerCall,
  { code, reason, http, durationMs }: CallOutcome & { readonly durationMs: number },
  accessLog: AccessLog,
): void {
  const principal = context.principal as Principal | undefined;
  const fields = {
    method: context.path,
    code: status[code],
    http,
    reason,
    duration_ms: Math.round(durationMs * 1000) / 1000,
    request_id: context.requestId,
    key_prefix: (principal ?? context.rejectedKey)?.keyPrefix,
    organization_id: context.organizationId,
    peer: context.peer,
  };
  context.log[isLogged(context.path, code, accessLog) ? 'info' : 'debug'](fields, 'rpc.request');
}

/** Whether the access log contains a call. Successful health checks, which are frequent, are never logged there. */
function isLogged(path: string, code: status, accessLog: AccessLog): boolean {
  const succeeded = code === status.OK;
  if (accessLog === 'all') return path !== HEALTH_CHECK || !succeeded;
  return accessLog === 'errors' && !succeeded && code !== status.CANCELLED;
}

/** Converts an error to the form for the client, and logs details that the client does not receive. */
export function toClientError({ context }: ServerCall, error: unknown): WireError {
  const { path, requestId, log } = context;
  if (error instanceof ApiKeyRejectedError) context.rejectedKey = error.key;
  if (error instanceof UnknownApiKeyError) context.unknownKeyPrefix = error.keyPrefix;
  const wire = toWire(error, requestId);
  if (wire.cause !== undefined)
    log.error({ method: path, request_id: requestId, reason: wire.reason, err: wire.cause }, 'rpc.failed');
  return wire.isInDoubt && context.idempotencyKey !== undefined ? { ...wire, ...SAFE_TO_REPEAT } : wire;
}

/**
 * Logs an error of a handler whose call had already ended, so that no client receives it. A DomainError and an
 * AbortError are expected then, because the handler was asked to stop, and are not logged.
 */
export function logLateFailure({ context }: ServerCall, err: unknown): void {
  if (err instanceof DomainError || (err instanceof Error && err.name === 'AbortError')) return;
  context.log.error({ method: context.path, request_id: context.requestId, err }, 'rpc.handler_failed_after_close');
}
