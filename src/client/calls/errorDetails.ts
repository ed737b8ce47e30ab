import { status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import type { PlantroomErrorFields } from '../errorFields';
import { BadRequest, ErrorInfo, RequestInfo, RetryInfo } from '../gen/google/rpc/error_details';
import { Status } from '../gen/google/rpc/status';

interface Decoder<Detail> {
  decode(bytes: Uint8Array): Detail;
}

/** Parses the details of a failed call from its status and `grpc-status-details-bin`. */
export function parseErrorDetails(error: ServiceError): PlantroomErrorFields {
  const findDetail = createDetailReader(error.metadata);
  const { reason, metadata } = findDetail('ErrorInfo', ErrorInfo) ?? { reason: '', metadata: {} };
  const { fieldViolations } = findDetail('BadRequest', BadRequest) ?? { fieldViolations: [] };
  const retry = findDetail('RetryInfo', RetryInfo)?.retryDelay;
  return {
    status: status[error.code] ?? String(error.code),
    reason,
    metadata,
    violations: fieldViolations.map(({ field, description }) => ({ field, description })),
    requestId: findDetail('RequestInfo', RequestInfo)?.requestId ?? getText(error.metadata, 'x-request-id'),
    retryAfterMs: retry && retry.seconds * 1000 + retry.nanos / 1e6,
  };
}

/**
 * Returns a function that finds and decodes the detail of this type (a name in google.rpc, for example `ErrorInfo`); it
 * returns undefined if there is none.
 */
function createDetailReader(
  metadata: Metadata | undefined,
): <Detail>(name: string, decoder: Decoder<Detail>) => Detail | undefined {
  const details = findStatus(metadata)?.details ?? [];
  return (name, decoder) => {
    const detail = details.find(({ typeUrl }) => typeUrl === `type.googleapis.com/google.rpc.${name}`);
    return detail && tryDecode(() => decoder.decode(detail.value));
  };
}

/** Decodes the status with the details from the trailers; undefined: there is none. */
function findStatus(metadata: Metadata | undefined): Status | undefined {
  const raw = metadata?.get('grpc-status-details-bin')[0];
  return raw instanceof Uint8Array ? tryDecode(() => Status.decode(raw)) : undefined;
}

/**
 * Decodes a message; undefined if it is invalid. A proxy may replace the message; then only the status code and its
 * text are used.
 */
function tryDecode<Message>(decode: () => Message): Message | undefined {
  try {
    return decode();
  } catch {
    return undefined;
  }
}

/** Returns a text value of the metadata; empty if there is none. */
function getText(metadata: Metadata | undefined, name: string): string {
  const [value] = metadata?.get(name) ?? [];
  return typeof value === 'string' ? value : '';
}
