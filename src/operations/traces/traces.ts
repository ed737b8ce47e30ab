import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, ParentBasedSampler, TraceIdRatioBasedSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import type { TransactionObserver, TransactionResult } from '../../database';
import type { ExecutionStep } from '../../executions';
import type { Logger } from '../../kernel/logger';
import { CallSpans } from './callSpans';
import { CurrentSpan } from './currentSpan';
import { Delivery } from './delivery';
import { ExecutionSpans, type Hub } from './executionSpans';

/** Where traces go, and of which program they are. */
export interface TraceOptions {
  /** The whole address of an OTLP/HTTP collector. */
  readonly endpoint: string;
  /** How many of the calls that begin here are traced, 0 to 100; of those that belong to a caller's trace the caller decides. */
  readonly samplePercent: number;
  readonly version: string;
  readonly log: Logger;
}

/** A script that ended, as the sandbox tells of it. */
export interface ScriptRun {
  readonly role: string;
  readonly durationMs: number;
  readonly scriptMs: number;
  readonly error: string | undefined;
}

// What waits for the collector: 2048 spans are about 2 MB; what comes beyond them is dropped.
const QUEUE = { maxQueueSize: 2048, maxExportBatchSize: 512, scheduledDelayMillis: 2000, exportTimeoutMillis: 3000 };
const FLUSH_MS = 2000;

/** Traces of calls and executions. What observes is called in the middle of the work: each only notes what was. */
export class Traces {
  /** An observer of the edge. */
  readonly calls: CallSpans;
  private readonly provider: TracerProvider;
  private readonly current: CurrentSpan;
  private readonly executions: ExecutionSpans;

  constructor({ endpoint, samplePercent, version, log }: TraceOptions) {
    this.provider = new TracerProvider({
      resource: resourceFromAttributes({ 'service.name': 'plantroom', 'service.version': version }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(samplePercent / 100) }),
      spanProcessors: [new BatchSpanProcessor({ exporter: new Delivery(endpoint, log), ...QUEUE })],
    });
    const tracer = this.provider.getTracer('plantroom', version);
    this.current = new CurrentSpan(tracer);
    this.calls = new CallSpans(tracer, this.current);
    this.executions = new ExecutionSpans(tracer, this.current);
  }

  /** An observer of the database. */
  readonly transactions: TransactionObserver = {
    asked: () => {
      const span = this.current.get();
      if (!span) return undefined;
      const since = performance.now();
      return {
        onBehalf: (work) => this.current.run(span, work),
        ended: (waitedMs, result) => {
          this.current.part(span, 'database transaction', performance.now() - since, { 'plantroom.database.waited_ms': waitedMs, 'plantroom.database.result': result }, faultOf(result));
        },
      };
    },
  };

  /** An encoder or a decoder has run. */
  script({ role, durationMs, scriptMs, error }: ScriptRun): void {
    this.current.part(this.current.get(), `run ${role}`, durationMs, { 'plantroom.script.computed_ms': scriptMs }, error);
  }

  /** Something happened to an execution, and that is on disk. */
  step(step: ExecutionStep): void {
    this.executions.step(step);
  }

  /** The same hub, whose sending is traced. */
  hub(hub: Hub): Hub {
    return this.executions.hub(hub);
  }

  /** Delivers what is left, within 2 seconds. */
  async stop(): Promise<void> {
    this.executions.stop();
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(() => late.resolve(), FLUSH_MS);
    await Promise.race([this.provider.shutdown().catch(() => {}), late.promise]);
    clearTimeout(timer);
  }
}

function faultOf(result: TransactionResult): string | undefined {
  return result === 'failed' ? 'database' : undefined;
}
