import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseHostPort, formatHostPort } from '../../config';
import type { Logger } from '../../kernel/logger';
import { toListenError } from '../errors/listenError';
import type { Readiness } from './readiness';
import { limitIdleConnections } from './connectionLimiter';
import { createHealthPage, createReadyPage } from './statusPages';

/** The metrics of the server in the Prometheus text format. */
interface MetricsText {
  readonly contentType: string;
  text(): Promise<string>;
}

const MAX_REQUEST_MS = 30_000;
// Monitoring clients send their request immediately after they connect.
const MAX_IDLE_MS = 3000;
const MAX_CONNECTIONS = 100;

/**
 * The monitoring port: /metrics, /healthz and /readyz over plain HTTP without an API key. Its responses contain no
 * names, no organization ids and no secrets.
 */
export class StatusPort {
  /** Undefined until the server has started. */
  metrics: MetricsText | undefined;
  private readonly server: Server;

  constructor(private readonly options: { readonly readiness: Readiness; readonly log: Logger }) {
    const limits = {
      headersTimeout: MAX_IDLE_MS,
      requestTimeout: MAX_REQUEST_MS,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16 * 1024,
    };
    this.server = createServer(limits, (request, response) => void this.handleRequest(request, response));
    limitIdleConnections(this.server, MAX_CONNECTIONS, options.log);
    this.server.setTimeout(MAX_REQUEST_MS); // disconnects clients that do not read
  }

  /** Listens on `host:port` (port 0: any free port). Throws a DomainError that explains how to fix the problem. */
  async start(listen: string): Promise<{ address: string }> {
    const { host, port } = parseHostPort(listen) ?? { host: listen, port: 0 };
    try {
      await new Promise<void>((resolve, reject) => this.server.once('error', reject).listen(port, host, resolve));
    } catch (error) {
      throw toListenError(listen, 'PLANTROOM_METRICS_LISTEN', error as Error);
    }
    return { address: formatHostPort({ host, port: (this.server.address() as AddressInfo).port }) };
  }

  /** Closes all connections immediately. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  /** Responds to one request; an unexpected error is logged and reported as 500. */
  private async handleRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      request.resume(); // discards a body
      if (request.method !== 'GET' && request.method !== 'HEAD')
        return send(response, 405, 'text/plain; charset=utf-8', 'Method not allowed. Use GET.\n', {
          allow: 'GET, HEAD',
        });
      await this.respond((request.url ?? '').split('?')[0], response);
    } catch (err) {
      this.options.log.error({ err }, 'metrics.failed');
      send(response, 500, 'text/plain; charset=utf-8', 'The metrics could not be collected. See the server log.\n');
    }
  }

  /** Responds to a GET or HEAD request by its path. */
  private async respond(path: string | undefined, response: ServerResponse): Promise<void> {
    if (path === '/healthz' || path === '/readyz') {
      const { http, json } = path === '/healthz' ? createHealthPage() : await createReadyPage(this.options.readiness);
      return send(response, http, 'application/json; charset=utf-8', JSON.stringify(json));
    }
    if (path !== '/metrics')
      return send(response, 404, 'text/plain; charset=utf-8', 'Not found. Use /metrics, /healthz or /readyz.\n');
    if (!this.metrics) return send(response, 503, 'text/plain; charset=utf-8', 'The server is starting.\n');
    return send(response, 200, this.metrics.contentType, await this.metrics.text());
  }
}

/** Sends a whole response. */
function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const bytes = Buffer.from(body);
  response
    .writeHead(status, {
      'content-type': type,
      'content-length': bytes.length,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    })
    .end(bytes);
}
