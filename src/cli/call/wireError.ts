import type { ServiceError } from '@grpc/grpc-js';
import { PlantroomError, type FieldViolation } from '../../client';

/** A failed call as the server told it. */
export interface WireError {
  /** The gRPC status, for example `NOT_FOUND`. */
  readonly status: string;
  /** snake_case; empty if it did not come from a Plantroom. */
  readonly reason: string;
  readonly message: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
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
  const { retryAfterMs, status, reason, metadata, violations, requestId } = PlantroomError.from(error);
  return { status, reason, message: error.details, metadata, violations, requestId, ...(retryAfterMs !== undefined && { retryAfterSeconds: retryAfterMs / 1000 }) };
}

/** For people: what went wrong, each wrong field on a line of its own, the request id. */
export function wireErrorText(error: WireError, address: string): string {
  const many = error.violations.length > 1;
  const lines = [`${error.status}${error.reason ? ` ${error.reason}` : ''}: ${many ? `${error.violations.length} mistakes` : error.message}`];
  if (many) lines.push(...error.violations.map((v) => `  ${v.field}: ${v.description}`));
  if (error.retryAfterSeconds !== undefined) lines.push(`  try again in ${error.retryAfterSeconds} s`);
  if (error.requestId) lines.push(`  request id ${error.requestId}`);
  if (isUnreached(error)) lines.push(`  ${unreachedText(address)}`);
  return lines.join('\n');
}

/** Whether no Plantroom answered. */
export function isUnreached({ status, reason }: Pick<WireError, 'status' | 'reason'>): boolean {
  return status === 'UNAVAILABLE' && reason === '';
}

/** What is likely wrong where no Plantroom answered, in the words of the command line. */
export function unreachedText(address: string): string {
  return `the server at ${address} cannot be reached, or its certificate is not signed by the CA that was given (--ca), or one side speaks TLS and the other does not (--plaintext)`;
}
