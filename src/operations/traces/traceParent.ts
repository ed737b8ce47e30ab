import type { SpanContext } from '@opentelemetry/api';

// W3C Trace Context: version 00 has four parts, a later one may have more; ff is none, and neither is an id of zeros.
const FORM = /^(?!ff)(?!00-.{53})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/** The caller's part of a trace; undefined where the header is missing or wrong, which is no fault of the call. */
export function traceParentOf(header: string | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = FORM.exec(header?.trim() ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}
