import type { Violation } from '../../kernel/errors';
import { BadRequest, ErrorInfo, RequestInfo, RetryInfo } from '../../gen/google/rpc/error_details';
import { Status } from '../../gen/google/rpc/status';
import type { WireError } from './errorTable';

// Clients reject trailers larger than 8 KiB (gRPC's usual soft limit). Base64 and percent-encoding use part of that.
const MAX_MESSAGE_BYTES = 1200;
const MAX_VIOLATION_BYTES = 2800;
// The tags and lengths of an encoded violation and of its two texts.
const VIOLATION_OVERHEAD_BYTES = 8;
const MAX_TEXT_LENGTH = 300;
// A gRPC client that waits longer would block its caller, so it reports the error instead.
const MAX_PUSHBACK_MS = 5000;
const YEAR_MS = 365 * 86_400_000;

/**
 * Encodes an error as `google.rpc.Status` for `grpc-status-details-bin`, with ErrorInfo, RequestInfo and, if
 * applicable, BadRequest and RetryInfo.
 */
export function encodeDetails(error: WireError): Buffer {
  const details = [
    packDetail(
      'ErrorInfo',
      ErrorInfo.encode({
        reason: error.reason,
        domain: 'plantroom',
        metadata: Object.fromEntries(Object.entries(error.metadata).map(([name, value]) => [name, truncate(value)])),
      }).finish(),
    ),
    packDetail('RequestInfo', RequestInfo.encode({ requestId: error.requestId, servingData: '' }).finish()),
  ];
  if (error.violations.length > 0)
    details.push(
      packDetail('BadRequest', BadRequest.encode({ fieldViolations: limitViolations(error.violations) }).finish()),
    );
  if (error.retryAfterMs !== undefined)
    details.push(packDetail('RetryInfo', RetryInfo.encode({ retryDelay: toDuration(error.retryAfterMs) }).finish()));
  return Buffer.from(Status.encode({ code: error.grpc, message: truncateMessage(error.message), details }).finish());
}

/**
 * Returns the value of `grpc-retry-pushback-ms`: the delay, in milliseconds, after which a gRPC client may retry
 * automatically; -1: the client must not retry, and reports the error to its caller. Undefined: omit the trailer.
 */
export function getRetryPushback({
  retryAfterMs,
  isInDoubt,
}: Pick<WireError, 'retryAfterMs' | 'isInDoubt'>): string | undefined {
  if (isInDoubt) return '-1'; // the change may be stored already: the caller must check before a retry
  if (retryAfterMs === undefined) return undefined;
  if (retryAfterMs > MAX_PUSHBACK_MS || Number.isNaN(retryAfterMs)) return '-1';
  return String(Math.max(0, Math.ceil(retryAfterMs)));
}

// Percent-encoding of a UTF-16 code unit: at most 3 bytes of UTF-8, which take 3 characters each.
const MAX_ENCODED_BYTES_PER_UNIT = 9;

/**
 * Truncates a message so that it fits into a trailer (the headers after a gRPC response), where it is percent-encoded.
 * Shortens it in steps of a tenth, because the encoded length depends on the characters.
 */
export function truncateMessage(message: string): string {
  const wellFormed = message.toWellFormed();
  const isShortEnough = wellFormed.length * MAX_ENCODED_BYTES_PER_UNIT <= MAX_MESSAGE_BYTES;
  if (isShortEnough || encodeURI(wellFormed).length <= MAX_MESSAGE_BYTES) return wellFormed;
  let end = Math.min(wellFormed.length, MAX_MESSAGE_BYTES);
  while (encodeURI(wellFormed.slice(0, end).toWellFormed()).length > MAX_MESSAGE_BYTES) end = Math.floor(end * 0.9);
  return `${wellFormed.slice(0, end)}...`.toWellFormed();
}

/** Wraps an encoded google.rpc message with its type URL. */
function packDetail(name: string, value: Uint8Array): { typeUrl: string; value: Buffer } {
  return { typeUrl: `type.googleapis.com/google.rpc.${name}`, value: Buffer.from(value) };
}

/** Converts to a protobuf Duration in whole milliseconds, between 0 and one year. */
function toDuration(ms: number): { seconds: number; nanos: number } {
  const wholeMs = Number.isNaN(ms) ? 0 : Math.min(Math.max(0, Math.ceil(ms)), YEAR_MS);
  return { seconds: Math.floor(wholeMs / 1000), nanos: (wholeMs % 1000) * 1_000_000 };
}

/** Returns as many violations as fit into the trailer; if some do not fit, the last entry contains their number. */
function limitViolations(
  violations: readonly Violation[],
): { field: string; description: string; reason: string; localizedMessage: undefined }[] {
  const included = [];
  let totalBytes = 0;
  for (const violation of violations) {
    const field = truncate(violation.field);
    const description = truncate(violation.description);
    totalBytes += Buffer.byteLength(field) + Buffer.byteLength(description) + VIOLATION_OVERHEAD_BYTES;
    if (totalBytes > MAX_VIOLATION_BYTES) {
      included.push({
        field: '',
        description: `and ${violations.length - included.length} more: fix these first`,
        reason: '',
        localizedMessage: undefined,
      });
      break;
    }
    included.push({ field, description, reason: '', localizedMessage: undefined });
  }
  return included;
}

/** Truncates a text to 300 characters and marks that with three dots. */
function truncate(text: string): string {
  return (text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}...` : text).toWellFormed();
}
