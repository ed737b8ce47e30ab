import type { ClientHttp2Session } from 'node:http2';
import { openSession } from '../bench/load';
import type { Key, PlantroomServer } from '../bench/plantroomServer';

/** A response. */
export interface RestResponse {
  readonly status: number;
  readonly body: Buffer;
}

/** A body and its type. */
export interface RestBody {
  readonly type: string;
  readonly bytes: Buffer;
}

/** A REST client on one HTTP/2 connection. */
export class RestClient {
  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly headers: Readonly<Record<string, string>>,
  ) {}

  static async open(server: PlantroomServer, key: Key = server.key): Promise<RestClient> {
    const url = `https://${server.process.ready.http?.replace('0.0.0.0', '127.0.0.1')}`;
    return new RestClient(await openSession({ url, ca: server.ca }), server.headers(key));
  }

  /** Sends a request whose response is JSON. Throws if the status is not one of `expectedStatuses`. */
  async requestJson<Response>(
    verb: string,
    path: string,
    body?: object,
    expectedStatuses: readonly number[] = [200, 201],
  ): Promise<Response> {
    const requestBody = body && { type: 'application/json', bytes: Buffer.from(JSON.stringify(body)) };
    return JSON.parse(
      (await this.request(verb, path, requestBody, expectedStatuses)).body.toString() || 'null',
    ) as Response;
  }

  /**
   * Sends a request. Throws if the status is not one of `expectedStatuses`. `key`: used instead of the client's key.
   */
  async request(
    verb: string,
    path: string,
    requestBody?: RestBody,
    expectedStatuses: readonly number[] = [200, 201],
    key?: Key,
  ): Promise<RestResponse> {
    const response = await new Promise<RestResponse>((resolve, reject) => {
      const headers = {
        ...this.headers,
        ...(key && { 'x-api-key': key.apiKey }),
        ...(requestBody && { 'content-type': requestBody.type }),
      };
      const stream = this.session.request({ ':method': verb, ':path': path, ...headers });
      const chunks: Buffer[] = [];
      let status = 0;
      stream.on('response', (headerFields) => (status = Number(headerFields[':status'])));
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('error', reject);
      stream.on('close', () => resolve({ status, body: Buffer.concat(chunks) }));
      stream.end(requestBody?.bytes);
    });
    if (!expectedStatuses.includes(response.status))
      throw new Error(`${verb} ${path} returned status ${response.status}: ${response.body.toString().slice(0, 300)}`);
    return response;
  }

  close(): void {
    this.session.close();
  }
}
