import { createServer, type Http2Session, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

/** Handles an HTTP/2 stream. */
export type RawAnswer = (stream: ServerHttp2Stream) => void;

const HEADERS = { ':status': 200, 'content-type': 'application/grpc' };

/** Answers with an empty message. */
export const answerEmpty: RawAnswer = (stream) => {
  stream.respond(HEADERS, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.end(Buffer.alloc(5));
};
/** Answers with these trailers alone. */
export const answerTrailers =
  (fields: Readonly<Record<string, string>>): RawAnswer =>
  (stream) =>
    stream.respond({ ...HEADERS, ...fields }, { endStream: true });
/** Resets the stream with an HTTP/2 code. */
export const resetStream =
  (code: number): RawAnswer =>
  (stream) =>
    stream.close(code);

/** Sends the headers of a response, then breaks the connection. */
export const breakAfterHeaders: RawAnswer = (stream) => {
  stream.respond(HEADERS);
  const { session } = stream;
  setTimeout(() => session?.socket.resetAndDestroy(), 20);
};

/** A server with behavior that no gRPC server has, but proxies and stopping servers do. */
export class RawServer {
  readonly paths: string[] = [];
  /** Returns the handler of the n-th call, counted from 0. */
  script: (n: number) => RawAnswer = () => answerEmpty;
  private readonly sessions = new Set<Http2Session>();
  private readonly server = createServer();

  get address(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async start(): Promise<void> {
    this.server.on('session', (session) => this.sessions.add(session));
    this.server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      stream.on('error', () => {}); // The client reports the error.
      stream.resume();
      this.paths.push(String(headers[':path']));
      this.script(this.paths.length - 1)(stream);
    });
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  async stop(): Promise<void> {
    for (const session of this.sessions) session.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
