import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Span, type Tracer } from '@opentelemetry/api';
import type { ActiveSpan } from './activeSpan';
import { parseTraceParent } from './traceParent';

/** The start of a call: fields of the ObservedCall of the api module. */
interface TracedCall {
  readonly path: string;
  readonly kind: string;
  readonly isKnown: boolean;
  readonly transport: 'grpc' | 'http';
  readonly requestId: string;
  readonly traceparent: string | undefined;
}

/** The outcome of a call: fields of the CallEnd of the api module. */
interface TracedCallEnd {
  readonly code: string;
  readonly reason: string | undefined;
  readonly http: number | undefined;
}

/** Status codes of server errors; all others are errors of the caller. */
const SERVER_ERROR_CODES: ReadonlySet<string> = new Set([
  'UNKNOWN',
  'DEADLINE_EXCEEDED',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
]);

/** Creates a span for each call. The api module calls it at the start of each call. */
export class CallSpans {
  constructor(
    private readonly tracer: Tracer,
    private readonly activeSpan: ActiveSpan,
  ) {}

  /** A call started, in the caller's trace if there is one; undefined: it is not traced. */
  onCallStarted({ path, kind, isKnown, transport, requestId, traceparent }: TracedCall): CallSpan | undefined {
    const parent = parseTraceParent(traceparent);
    const [service = '', method = ''] = path.slice(1).split('/');
    const name = isKnown ? path.slice(1) : 'unknown';
    const attributes = {
      'rpc.system': 'grpc',
      'plantroom.transport': transport,
      'plantroom.request_id': requestId,
      ...(isKnown && { 'rpc.service': service, 'rpc.method': method }),
    };
    const span = this.tracer.startSpan(
      name,
      { kind: SpanKind.SERVER, attributes },
      parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT,
    );
    return span.isRecording() ? new CallSpan(span, kind === 'unary' ? this.activeSpan : undefined) : undefined;
  }
}

/**
 * The span of one call. `activeSpan` runs the work of the call within the span; undefined for streams, because one may
 * last for years.
 */
class CallSpan {
  constructor(
    private readonly span: Span,
    private readonly activeSpan: ActiveSpan | undefined,
  ) {}

  /** Runs the work so that database transactions and scripts appear below this span. */
  runInContext(work: () => void): void {
    if (this.activeSpan) this.activeSpan.runWithin(this.span, work);
    else work();
  }

  /** Records the outcome and ends the span. Only errors of the server mark the span as failed. */
  onCallEnded({ code, reason, http }: TracedCallEnd): void {
    this.span.setAttribute('rpc.response.status_code', code);
    if (http !== undefined) this.span.setAttribute('http.response.status_code', http);
    if (reason !== undefined) this.span.setAttribute('error.type', reason);
    if (SERVER_ERROR_CODES.has(code)) this.span.setStatus({ code: SpanStatusCode.ERROR });
    this.span.end();
  }
}
