import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Logger } from '../../kernel/logger';

const EXPORT_MS = 2000;

type Told = Parameters<SpanExporter['export']>[1];

/** Brings spans to a collector, by OTLP over HTTP. One that does not answer is logged once, and once more when it does again; its spans are gone. */
export class Delivery implements SpanExporter {
  private readonly exporter: OTLPTraceExporter;
  private isDown = false;

  constructor(
    private readonly endpoint: string,
    private readonly log: Logger,
  ) {
    this.exporter = new OTLPTraceExporter({ url: endpoint, timeoutMillis: EXPORT_MS });
  }

  export(spans: ReadableSpan[], told: Told): void {
    this.exporter.export(spans, (result) => {
      this.note(result.code === DELIVERED, result.error);
      told({ code: DELIVERED }); // who is told of a failure logs it, each time
    });
  }

  async forceFlush(): Promise<void> {
    await this.exporter.forceFlush();
  }

  async shutdown(): Promise<void> {
    await this.exporter.shutdown();
  }

  private note(isDelivered: boolean, error: Error | undefined): void {
    const endpoint = new URL(this.endpoint).origin; // its path may hold a token
    if (!isDelivered && !this.isDown) this.log.warn({ endpoint, reason: error?.message ?? 'no answer' }, 'traces.not_delivered');
    if (isDelivered && this.isDown) this.log.info({ endpoint }, 'traces.delivered_again');
    this.isDown = !isDelivered;
  }
}

/** ExportResultCode.SUCCESS of OpenTelemetry, which has it in a package that is not ours to import. */
const DELIVERED: Parameters<Told>[0]['code'] = 0;
