import type { SpanContext } from '@opentelemetry/api';

// W3C Trace Context: `<version>-<trace id>-<span id>-<flags>`. Version 00 has exactly these four parts, which are 55
// characters; a later one may have more. Version ff and ids of zeros are invalid.
const TRACEPARENT_PATTERN =
  /^(?!ff)(?!00-.{53})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/** Parses the caller's part of a trace; undefined if the header is missing or invalid, which does not fail the call. */
export function parseTraceParent(header: string | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT_PATTERN.exec(header?.trim() ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const sampledFlag = Number.parseInt(flags, 16) & 1; // the other flags are reserved
  return { traceId, spanId, traceFlags: sampledFlag, isRemote: true };
}
