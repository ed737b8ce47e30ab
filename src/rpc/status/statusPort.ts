import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { findHostPort, hostPortText } from '../../config';
import type { Logger } from '../../kernel/logger';
import { listenFault } from '../listenFault';
import type { Readiness } from './readiness';
import { limitCrowd } from './crowd';
import { healthPage, readyPage } from './statusPages';

/** The numbers of the server as a text. */
export interface MetricsText {
  readonly contentType: string;
  text(): Promise<string>;
}

const SLOWEST_MS = 30_000;
/** Whoever watches asks as soon as it is connected. */
const LONGEST_SILENCE_MS = 3000;
const MOST_CONNECTIONS = 100;

/** The port of those who watch the server: /metrics, /healthz and /readyz, by plain HTTP without a key. It knows no names, no ids of organizations and no secrets. */
export class StatusPort {
  /** Undefined: there are none yet. */
  metrics: MetricsText | undefined;
  private readonly server: Server;

  constructor(private readonly options: { readonly readiness: Readiness; readonly log: Logger }) {
    const limits = { headersTimeout: LONGEST_SILENCE_MS, requestTimeout: SLOWEST_MS, connectionsCheckingInterval: 1000, maxHeaderSize: 16 * 1024 };
    this.server = createServer(limits, (request, response) => void this.answer(request, response));
    limitCrowd(this.server, MOST_CONNECTIONS, options.log);
    this.server.setTimeout(SLOWEST_MS); // whoever does not read is cut
  }

  /** Listens on `host:port` (port 0: any that is free). Throws a DomainError that says what to change. */
  async start(listen: string): Promise<{ address: string }> {
    const { host, port } = findHostPort(listen) ?? { host: listen, port: 0 };
    try {
      await new Promise<void>((resolve, reject) => this.server.once('error', reject).listen(port, host, resolve));
    } catch (error) {
      throw listenFault(listen, 'PLANTROOM_METRICS_LISTEN', error as Error);
    }
    return { address: hostPortText({ host, port: (this.server.address() as AddressInfo).port }) };
  }

  /** Cuts what is open. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      request.resume(); // a body is for nothing
      if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, 'text/plain; charset=utf-8', 'only GET is taken here\n', { allow: 'GET, HEAD' });
      await this.show((request.url ?? '').split('?')[0], response);
    } catch (err) {
      this.options.log.error({ err }, 'metrics.failed');
      send(response, 500, 'text/plain; charset=utf-8', 'the numbers cannot be shown; the log of the server says why\n');
    }
  }

  private async show(path: string | undefined, response: ServerResponse): Promise<void> {
    if (path === '/healthz' || path === '/readyz') {
      const { http, json } = path === '/healthz' ? healthPage() : await readyPage(this.options.readiness);
      return send(response, http, 'application/json; charset=utf-8', JSON.stringify(json));
    }
    if (path !== '/metrics') return send(response, 404, 'text/plain; charset=utf-8', 'there is /metrics, /healthz and /readyz\n');
    if (!this.metrics) return send(response, 503, 'text/plain; charset=utf-8', 'the server is starting\n');
    return send(response, 200, this.metrics.contentType, await this.metrics.text());
  }
}

function send(response: ServerResponse, status: number, type: string, body: string, headers: Readonly<Record<string, string>> = {}): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...headers }).end(bytes);
}
