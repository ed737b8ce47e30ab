import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

/** A span in OTLP's JSON, with its attributes as a record. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly attributes: Readonly<Record<string, unknown>>;
}

interface Sent {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<CollectedSpan, 'attributes'> & {
        readonly attributes?: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
      })[];
    }[];
  }[];
}

/** A collector of traces, by OTLP over HTTP. */
export class TraceCollector {
  readonly spans: CollectedSpan[] = [];
  /** All received bodies, unchanged. */
  text = '';

  private constructor(private readonly server: Server) {}

  static async start(): Promise<TraceCollector> {
    const server = createServer();
    const collector = new TraceCollector(server);
    server.on('request', (request, response) => {
      const answer = async (): Promise<void> => {
        collector.store((await json(request)) as Sent);
        response.setHeader('content-type', 'application/json').end('{}');
      };
      void answer();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return collector;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1/traces`;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  private store(sent: Sent): void {
    this.text += JSON.stringify(sent);
    const all = sent.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
    this.spans.push(
      ...all.map(({ attributes = [], ...span }) => ({
        ...span,
        attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
      })),
    );
  }
}
