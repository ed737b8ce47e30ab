import { status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import { BadRequest, ErrorInfo, RequestInfo, RetryInfo } from '../../gen/google/rpc/error_details';
import { Status } from '../../gen/google/rpc/status';
import type { Violation } from '../../kernel/errors';

/** A failed call as the server told it. */
export interface WireError {
  /** The gRPC status, for example `NOT_FOUND`. */
  readonly status: string;
  /** snake_case; empty if it did not come from a Plantroom. */
  readonly reason: string;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  /** By this the server's log can be searched; empty if it is not known. */
  readonly requestId: string;
  /** Seconds after which it is worth trying again; absent if the server did not say. */
  readonly retryAfterSeconds?: number;
}

/** Whether it is the error of a failed call. */
export function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}

/** What a failed call tells. */
export function wireErrorOf(error: ServiceError): WireError {
  const parts = detailsOf(error.metadata);
  const { reason, metadata } = parts('ErrorInfo', ErrorInfo) ?? { reason: '', metadata: {} };
  const { fieldViolations } = parts('BadRequest', BadRequest) ?? { fieldViolations: [] };
  const { requestId } = parts('RequestInfo', RequestInfo) ?? { requestId: '' };
  const retry = parts('RetryInfo', RetryInfo)?.retryDelay;
  return {
    status: status[error.code] ?? String(error.code),
    reason,
    message: error.details,
    metadata,
    violations: fieldViolations.map(({ field, description }) => ({ field, description })),
    requestId,
    ...(retry && { retryAfterSeconds: retry.seconds + retry.nanos / 1e9 }),
  };
}

/** For people: what went wrong, each wrong field on a line of its own, the request id. */
export function wireErrorText(error: WireError, address: string): string {
  const many = error.violations.length > 1;
  const lines = [`${error.status}${error.reason ? ` ${error.reason}` : ''}: ${many ? `${error.violations.length} mistakes` : error.message}`];
  if (many) lines.push(...error.violations.map((v) => `  ${v.field}: ${v.description}`));
  if (error.retryAfterSeconds !== undefined) lines.push(`  try again in ${error.retryAfterSeconds} s`);
  if (error.requestId) lines.push(`  request id ${error.requestId}`);
  if (error.status === 'UNAVAILABLE' && !error.reason) lines.push(`  the server at ${address} cannot be reached, or its certificate is not signed by the CA that was given (--ca)`);
  return lines.join('\n');
}

type Decoder<Detail> = { decode(bytes: Uint8Array): Detail };

function detailsOf(metadata: Metadata | undefined): <Detail>(name: string, decoder: Decoder<Detail>) => Detail | undefined {
  const raw = metadata?.get('grpc-status-details-bin')[0];
  const details = Buffer.isBuffer(raw) ? Status.decode(raw).details : [];
  return (name, decoder) => {
    const detail = details.find((any) => any.typeUrl === `type.googleapis.com/google.rpc.${name}`);
    return detail && decoder.decode(detail.value);
  };
}
