import { status, type ServiceError } from '@grpc/grpc-js';
import { PlantroomError, type FieldViolation } from '../../client';
import { AlreadyReportedError } from '../exit';
import { escapeJson, note } from '../output';

/** A failed call as the server reported it. */
interface WireError {
  /** The gRPC status, for example `NOT_FOUND`. */
  readonly status: string;
  /** snake_case; empty if the error did not come from Plantroom. */
  readonly reason: string;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  /** Identifies the request in the server log; empty if unknown. */
  readonly requestId: string;
  /** Seconds after which to retry; absent if the server did not specify it. */
  readonly retryAfterSeconds?: number;
}

/** Whether the error comes from a failed call. */
export function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}

/** Extracts the facts of a failed call. */
export function toWireError(error: ServiceError): WireError {
  const { retryAfterMs, status, reason, metadata, violations, requestId } = PlantroomError.from(error);
  return {
    status,
    reason,
    message: error.details,
    metadata,
    violations,
    requestId,
    ...(retryAfterMs !== undefined && { retryAfterSeconds: retryAfterMs / 1000 }),
  };
}

/** Formats an error for people: the message, one line per invalid field, the request id. */
function formatWireError(error: WireError, address: string): string {
  const hasManyViolations = error.violations.length > 1;
  const lines = [
    `${error.status}${error.reason ? ` ${error.reason}` : ''}: ${hasManyViolations ? `${error.violations.length} invalid fields` : error.message}`,
  ];
  if (hasManyViolations) lines.push(...error.violations.map(({ field, description }) => `  ${field}: ${description}`));
  if (error.retryAfterSeconds !== undefined) lines.push(`  retry in ${error.retryAfterSeconds} s`);
  if (error.requestId) lines.push(`  request id ${error.requestId}`);
  if (isUnreachable(error)) lines.push(`  ${formatUnreachable(address)}`);
  return lines.join('\n');
}

/** How reportCallError reports an error. */
interface CallErrorReport {
  /** The address of the server. */
  readonly address: string;
  readonly isJson: boolean;
  /** The exit code of an invalid request; default: 2, same as for an invalid command line. Other errors have 1. */
  readonly invalidRequestCode?: 1 | 2;
}

/** Prints a failed call to stderr, and returns the error to throw instead of it. Any other error is returned as it is. */
export function reportCallError(error: unknown, { address, isJson, invalidRequestCode = 2 }: CallErrorReport): unknown {
  if (!isServiceError(error)) return error;
  const wire = toWireError(error);
  note(isJson ? escapeJson(JSON.stringify({ error: wire })) : `plantroom: ${formatWireError(wire, address)}`);
  return new AlreadyReportedError(error.code === status.INVALID_ARGUMENT ? invalidRequestCode : 1);
}

/** Whether no Plantroom server answered: it sets a reason in each of its errors. */
export function isUnreachable({ status, reason }: Pick<WireError, 'status' | 'reason'>): boolean {
  return status === 'UNAVAILABLE' && reason === '';
}

/** Describes likely causes of an unreachable server, with the command-line options. */
export function formatUnreachable(address: string): string {
  return `cannot reach the server at ${address}: check the address, that the certificate is signed by the CA (--ca), and that both sides use TLS or neither does (--plaintext)`;
}
