import type { ClientHttp2Session } from 'node:http2';
import { open } from '../bench/load';
import type { Key, PlantroomServer } from '../bench/plantroomServer';

/** What was answered. */
export interface RestAnswer {
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
    return new RestClient(await open({ url, ca: server.ca }), server.headers(key));
  }

  /** One request whose answer is JSON. Throws unless its status is one of those that are `fine`. */
  async json<Answer>(verb: string, path: string, body?: object, fine: readonly number[] = [200, 201]): Promise<Answer> {
    const sent = body && { type: 'application/json', bytes: Buffer.from(JSON.stringify(body)) };
    return JSON.parse((await this.ask(verb, path, sent, fine)).body.toString() || 'null') as Answer;
  }

  /** One request. Throws unless its status is one of those that are `fine`; `key`: another one than the client's. */
  async ask(verb: string, path: string, sent?: RestBody, fine: readonly number[] = [200, 201], key?: Key): Promise<RestAnswer> {
    const answer = await new Promise<RestAnswer>((resolve, reject) => {
      const headers = { ...this.headers, ...(key && { 'x-api-key': key.apiKey }), ...(sent && { 'content-type': sent.type }) };
      const stream = this.session.request({ ':method': verb, ':path': path, ...headers });
      const chunks: Buffer[] = [];
      let status = 0;
      stream.on('response', (told) => (status = Number(told[':status'])));
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('error', reject);
      stream.on('close', () => resolve({ status, body: Buffer.concat(chunks) }));
      stream.end(sent?.bytes);
    });
    if (!fine.includes(answer.status)) throw new Error(`${verb} ${path} was answered with ${answer.status}: ${answer.body.toString().slice(0, 300)}`);
    return answer;
  }

  close(): void {
    this.session.close();
  }
}
