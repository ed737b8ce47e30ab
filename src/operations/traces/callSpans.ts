import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Span, type Tracer } from '@opentelemetry/api';
import type { CurrentSpan } from './currentSpan';
import { traceParentOf } from './traceParent';

/** What is looked at of a call (rpc's ObservedCall). */
export interface TracedCall {
  readonly path: string;
  readonly kind: string;
  readonly isKnown: boolean;
  readonly transport: 'grpc' | 'http';
  readonly requestId: string;
  readonly traceparent: string | undefined;
}

/** How it ended (rpc's CallEnd). */
export interface TracedEnd {
  readonly code: string;
  readonly reason: string | undefined;
  readonly http: number | undefined;
}

/** What failed at the server; anything else is the caller's. */
const FAULTS: ReadonlySet<string> = new Set(['UNKNOWN', 'DEADLINE_EXCEEDED', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS']);

/** A span for each call: an observer of the edge. */
export class CallSpans {
  constructor(
    private readonly tracer: Tracer,
    private readonly current: CurrentSpan,
  ) {}

  /** A call began, in the caller's trace if there is one; undefined: it is not traced. */
  began({ path, kind, isKnown, transport, requestId, traceparent }: TracedCall): CallSpan | undefined {
    const parent = traceParentOf(traceparent);
    const [service = '', method = ''] = path.slice(1).split('/');
    const name = isKnown ? path.slice(1) : 'unknown';
    const attributes = { 'rpc.system': 'grpc', 'plantroom.transport': transport, 'plantroom.request_id': requestId, ...(isKnown && { 'rpc.service': service, 'rpc.method': method }) };
    const span = this.tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT);
    return span.isRecording() ? new CallSpan(span, kind === 'unary' ? this.current : undefined) : undefined;
  }
}

/** The span of one call. */
class CallSpan {
  /** `current`: where what the call does is known to be its; streams do without, since one may go on for years. */
  constructor(
    private readonly span: Span,
    private readonly current: CurrentSpan | undefined,
  ) {}

  inside(work: () => void): void {
    if (this.current) this.current.run(this.span, work);
    else work();
  }

  ended({ code, reason, http }: TracedEnd): void {
    this.span.setAttribute('rpc.response.status_code', code);
    if (http !== undefined) this.span.setAttribute('http.response.status_code', http);
    if (reason !== undefined) this.span.setAttribute('error.type', reason);
    if (FAULTS.has(code)) this.span.setStatus({ code: SpanStatusCode.ERROR });
    this.span.end();
  }
}
