import { AsyncLocalStorage } from 'node:async_hooks';
import { type Attributes, ROOT_CONTEXT, SpanStatusCode, trace, type Span, type Tracer } from '@opentelemetry/api';

/** Whose work is done just now. It is there only where traces are on: what the program needs it hands from hand to hand. */
export class CurrentSpan {
  private readonly storage = new AsyncLocalStorage<Span | undefined>();

  constructor(private readonly tracer: Tracer) {}

  /** The span of the call that this is done for; undefined: none that is traced. */
  get(): Span | undefined {
    return this.storage.getStore();
  }

  /** Runs the work, and all that follows from it, as that of a span. */
  run<T>(span: Span | undefined, work: () => T): T {
    return this.storage.run(span, work);
  }

  /** Adds a part of a span that is over now and took so many milliseconds; does nothing without a span. `fault`: its kind. */
  part(parent: Span | undefined, name: string, durationMs: number, attributes: Attributes, fault?: string): void {
    if (!parent) return;
    const end = Date.now();
    const span = this.tracer.startSpan(name, { startTime: end - durationMs, attributes }, trace.setSpan(ROOT_CONTEXT, parent));
    if (fault !== undefined) span.setAttribute('error.type', fault).setStatus({ code: SpanStatusCode.ERROR });
    span.end(end);
  }
}
