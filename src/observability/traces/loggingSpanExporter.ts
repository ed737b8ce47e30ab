import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Logger } from '../../kernel/logger';

const EXPORT_TIMEOUT_MS = 2000;

type ResultCallback = Parameters<SpanExporter['export']>[1];

/**
 * Sends spans to a collector by OTLP over HTTP. A failing collector is logged once, and once more when it recovers; the
 * spans of that time are lost.
 */
export class LoggingSpanExporter implements SpanExporter {
  private readonly exporter: OTLPTraceExporter;
  private isDown = false;

  constructor(
    private readonly endpoint: string,
    private readonly log: Logger,
  ) {
    this.exporter = new OTLPTraceExporter({ url: endpoint, timeoutMillis: EXPORT_TIMEOUT_MS });
  }

  /** Sends spans. Always reports success, because OpenTelemetry would log every reported failure. */
  export(spans: ReadableSpan[], onResult: ResultCallback): void {
    this.exporter.export(spans, (result) => {
      this.logStateChange(result.code === SUCCESS, result.error);
      onResult({ code: SUCCESS });
    });
  }

  async forceFlush(): Promise<void> {
    await this.exporter.forceFlush();
  }

  async shutdown(): Promise<void> {
    await this.exporter.shutdown();
  }

  /**
   * Logs the first failure, and the first success after it. The path of the endpoint is not logged, because it may
   * contain a token.
   */
  private logStateChange(isDelivered: boolean, error: Error | undefined): void {
    const endpoint = new URL(this.endpoint).origin;
    if (!isDelivered && !this.isDown)
      this.log.warn({ endpoint, reason: error?.message ?? 'no response' }, 'traces.export_failed');
    if (isDelivered && this.isDown) this.log.info({ endpoint }, 'traces.export_recovered');
    this.isDown = !isDelivered;
  }
}

/** ExportResultCode.SUCCESS of OpenTelemetry, whose package is not a direct dependency. */
const SUCCESS: Parameters<ResultCallback>[0]['code'] = 0;
