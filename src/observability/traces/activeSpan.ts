import { AsyncLocalStorage } from 'node:async_hooks';
import { type Attributes, ROOT_CONTEXT, SpanStatusCode, trace, type Span, type Tracer } from '@opentelemetry/api';

/** A finished part of a span. */
interface ChildSpan {
  readonly name: string;
  readonly durationMs: number;
  readonly attributes: Attributes;
  /** The kind of its error; undefined: it succeeded. */
  readonly errorKind?: string | undefined;
}

/** The span of the current work. Only set if traces are enabled; the program itself passes its context explicitly. */
export class ActiveSpan {
  private readonly storage = new AsyncLocalStorage<Span | undefined>();

  constructor(private readonly tracer: Tracer) {}

  /** The span of the current call; undefined: the call is not traced. */
  getCurrent(): Span | undefined {
    return this.storage.getStore();
  }

  /** Runs the work, and everything that it starts, within a span. */
  runWithin<T>(span: Span | undefined, work: () => T): T {
    return this.storage.run(span, work);
  }

  /** Adds a finished part to a span; it ended now. Does nothing without a span. */
  recordChild(parent: Span | undefined, { name, durationMs, attributes, errorKind }: ChildSpan): void {
    if (!parent) return;
    const endedAt = Date.now();
    const span = this.tracer.startSpan(
      name,
      { startTime: endedAt - durationMs, attributes },
      trace.setSpan(ROOT_CONTEXT, parent),
    );
    if (errorKind !== undefined) span.setAttribute('error.type', errorKind).setStatus({ code: SpanStatusCode.ERROR });
    span.end(endedAt);
  }
}
