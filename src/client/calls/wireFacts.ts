import { status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import type { PlantroomErrorFacts } from '../errorFacts';
import { BadRequest, ErrorInfo, RequestInfo, RetryInfo } from '../gen/google/rpc/error_details';
import { Status } from '../gen/google/rpc/status';

interface Decoder<Detail> {
  decode(bytes: Uint8Array): Detail;
}

/** What the answer of a failed call tells, by its status and `grpc-status-details-bin`. */
export function factsOf(error: ServiceError): PlantroomErrorFacts {
  const detail = detailsOf(error.metadata);
  const { reason, metadata } = detail('ErrorInfo', ErrorInfo) ?? { reason: '', metadata: {} };
  const { fieldViolations } = detail('BadRequest', BadRequest) ?? { fieldViolations: [] };
  const retry = detail('RetryInfo', RetryInfo)?.retryDelay;
  return {
    status: status[error.code] ?? String(error.code),
    reason,
    metadata,
    violations: fieldViolations.map(({ field, description }) => ({ field, description })),
    requestId: detail('RequestInfo', RequestInfo)?.requestId ?? textOf(error.metadata, 'x-request-id'),
    retryAfterMs: retry && retry.seconds * 1000 + retry.nanos / 1e6,
  };
}

function detailsOf(metadata: Metadata | undefined): <Detail>(name: string, decoder: Decoder<Detail>) => Detail | undefined {
  const details = statusOf(metadata)?.details ?? [];
  return (name, decoder) => {
    const detail = details.find((any) => any.typeUrl === `type.googleapis.com/google.rpc.${name}`);
    return detail && readable(() => decoder.decode(detail.value));
  };
}

function statusOf(metadata: Metadata | undefined): Status | undefined {
  const raw = metadata?.get('grpc-status-details-bin')[0];
  return raw instanceof Uint8Array ? readable(() => Status.decode(raw)) : undefined;
}

/** What a proxy put there may be no message: then the status and the text that came beside it must do. */
function readable<Message>(decode: () => Message): Message | undefined {
  try {
    return decode();
  } catch {
    return undefined;
  }
}

function textOf(metadata: Metadata | undefined, name: string): string {
  const [value] = metadata?.get(name) ?? [];
  return typeof value === 'string' ? value : '';
}
