import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { TransactionObserver } from '../../database';
import type { Logger } from '../../kernel/logger';
import { withTimeout } from '../../kernel/withTimeout';
import { CallSpans } from './callSpans';
import { ActiveSpan } from './activeSpan';
import { LoggingSpanExporter } from './loggingSpanExporter';
import { ExecutionSpans } from './executionSpans';

/** The destination of traces, and the identity of the program. */
interface TraceOptions {
  /** The complete URL of an OTLP/HTTP collector. */
  readonly endpoint: string;
  /**
   * The percentage of traced calls among those that start here, 0 to 100. For calls in a caller's trace, the caller
   * decides.
   */
  readonly samplePercent: number;
  readonly version: string;
  readonly log: Logger;
}

/** A finished script run, as reported by the sandbox. */
interface ScriptRun {
  readonly role: string;
  readonly durationMs: number;
  readonly executionMs: number;
  readonly error: string | undefined;
}

// The maximum number of spans that wait for the collector: 2048 spans are about 2 MB; further ones are dropped.
const BATCH_OPTIONS = {
  maxQueueSize: 2048,
  maxExportBatchSize: 512,
  scheduledDelayMillis: 2000,
  exportTimeoutMillis: 3000,
};
const FLUSH_TIMEOUT_MS = 2000;

/** Traces of calls and executions. Observers are called in the middle of the work, so they only record. */
export class Tracing {
  /** Traces calls: the api module calls it at the start of each call. */
  readonly calls: CallSpans;
  readonly executions: ExecutionSpans;
  private readonly provider: TracerProvider;
  private readonly activeSpan: ActiveSpan;

  constructor({ endpoint, samplePercent, version, log }: TraceOptions) {
    this.provider = new TracerProvider({
      resource: resourceFromAttributes({ 'service.name': 'plantroom', 'service.version': version }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(samplePercent / 100) }),
      spanProcessors: [new BatchSpanProcessor({ exporter: new LoggingSpanExporter(endpoint, log), ...BATCH_OPTIONS })],
    });
    const tracer = this.provider.getTracer('plantroom', version);
    this.activeSpan = new ActiveSpan(tracer);
    this.calls = new CallSpans(tracer, this.activeSpan);
    this.executions = new ExecutionSpans(tracer, this.activeSpan);
  }

  /** An observer of the database: records each transaction below the span of the work that requested it. */
  readonly transactions: TransactionObserver = {
    transactionRequested: () => {
      const span = this.activeSpan.getCurrent();
      if (!span) return undefined;
      const startedAt = performance.now();
      return {
        runInContext: (work) => this.activeSpan.runWithin(span, work),
        transactionEnded: (waitedMs, result) => {
          this.activeSpan.recordChild(span, {
            name: 'database transaction',
            durationMs: performance.now() - startedAt,
            attributes: { 'plantroom.database.waited_ms': waitedMs, 'plantroom.database.result': result },
            errorKind: result === 'failed' ? 'database' : undefined,
          });
        },
      };
    },
  };

  /** Records a run of an encoder or a decoder. */
  recordScriptRun({ role, durationMs, executionMs, error }: ScriptRun): void {
    this.activeSpan.recordChild(this.activeSpan.getCurrent(), {
      name: `run ${role}`,
      durationMs,
      attributes: { 'plantroom.script.computed_ms': executionMs },
      errorKind: error,
    });
  }

  /** Delivers the remaining spans, within 2 seconds. */
  async stop(): Promise<void> {
    this.executions.stop();
    const flushed = this.provider.shutdown().catch(() => {});
    await withTimeout(flushed, FLUSH_TIMEOUT_MS, () => {});
  }
}
