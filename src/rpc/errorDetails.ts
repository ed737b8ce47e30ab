import type { Violation } from '../kernel/errors';
import { BadRequest, ErrorInfo, RequestInfo, RetryInfo } from '../gen/google/rpc/error_details';
import { Status } from '../gen/google/rpc/status';
import type { WireError } from './errorTable';

// Clients refuse trailers of more than 8 KiB (gRPC's usual soft limit); base64 and percent signs take their part of it.
const MOST_MESSAGE_BYTES = 1200;
const MOST_VIOLATION_BYTES = 2800;
const MOST_TEXT = 300;
const LONGEST_PUSHBACK_MS = 5000;
const YEAR_MS = 365 * 86_400_000;

/** The error as `google.rpc.Status`, for `grpc-status-details-bin`: ErrorInfo, RequestInfo, and where they apply BadRequest and RetryInfo. */
export function encodeDetails(error: WireError): Buffer {
  const details = [
    packed('ErrorInfo', ErrorInfo.encode({ reason: error.reason, domain: 'plantroom', metadata: wellFormed(error.metadata) }).finish()),
    packed('RequestInfo', RequestInfo.encode({ requestId: error.requestId, servingData: '' }).finish()),
  ];
  if (error.violations.length > 0) details.push(packed('BadRequest', BadRequest.encode({ fieldViolations: fitting(error.violations) }).finish()));
  if (error.retryAfterMs !== undefined) details.push(packed('RetryInfo', RetryInfo.encode({ retryDelay: duration(error.retryAfterMs) }).finish()));
  return Buffer.from(Status.encode({ code: error.grpc, message: fittingMessage(error.message), details }).finish());
}

/** `grpc-retry-pushback-ms`: when a client of whatever language that tries again by itself may do so; -1: not within this call, whose caller should hear of it. Undefined: nothing is said. */
export function retryPushback({ retryAfterMs, isInDoubt }: Pick<WireError, 'retryAfterMs' | 'isInDoubt'>): string | undefined {
  if (isInDoubt) return '-1'; // it may be done already, and nobody looks in between
  if (retryAfterMs === undefined) return undefined;
  return String(retryAfterMs <= LONGEST_PUSHBACK_MS ? Math.max(0, Math.ceil(retryAfterMs)) : -1);
}

/** The message, cut so that it fits into a trailer once it is percent-encoded. */
export function fittingMessage(message: string): string {
  const whole = message.toWellFormed();
  if (whole.length * 9 <= MOST_MESSAGE_BYTES || encodeURI(whole).length <= MOST_MESSAGE_BYTES) return whole;
  let end = Math.min(whole.length, MOST_MESSAGE_BYTES);
  while (encodeURI(whole.slice(0, end).toWellFormed()).length > MOST_MESSAGE_BYTES) end = Math.floor(end * 0.9);
  return `${whole.slice(0, end)}...`.toWellFormed();
}

function packed(name: string, value: Uint8Array): { typeUrl: string; value: Buffer } {
  return { typeUrl: `type.googleapis.com/google.rpc.${name}`, value: Buffer.from(value) };
}

/** Whole milliseconds, because the wire takes no fractions, from none to a year. */
function duration(ms: number): { seconds: number; nanos: number } {
  const whole = Number.isNaN(ms) ? 0 : Math.min(Math.max(0, Math.ceil(ms)), YEAR_MS);
  return { seconds: Math.floor(whole / 1000), nanos: (whole % 1000) * 1_000_000 };
}

function wellFormed(metadata: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, cut(value)]));
}

/** As many violations as fit, and in the last how many did not. */
function fitting(violations: readonly Violation[]): { field: string; description: string; reason: string; localizedMessage: undefined }[] {
  const fits = [];
  let bytes = 0;
  for (const violation of violations) {
    const field = cut(violation.field);
    const description = cut(violation.description);
    bytes += Buffer.byteLength(field) + Buffer.byteLength(description) + 8;
    if (bytes > MOST_VIOLATION_BYTES) {
      fits.push({ field: '', description: `and ${violations.length - fits.length} more; mend these first`, reason: '', localizedMessage: undefined });
      break;
    }
    fits.push({ field, description, reason: '', localizedMessage: undefined });
  }
  return fits;
}

function cut(text: string): string {
  return (text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}...` : text).toWellFormed();
}
