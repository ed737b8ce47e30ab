import { type Metadata, Server, ServerCredentials, type status, type sendUnaryData, type ServerReadableStream, type ServerUnaryCall, type ServerWritableStream } from '@grpc/grpc-js';
import { descriptors } from '../support/testApp';

/** One call as a server sees it. */
export interface FakeCall {
  readonly path: string;
  readonly metadata: Metadata;
  /** The bytes of the request; empty for a stream of them. */
  readonly request: Buffer;
}

/** How a fake answers: the bytes of an answer, or a status; undefined: never. */
export type FakeAnswer = Buffer | { readonly code: status; readonly details?: string; readonly metadata?: Metadata } | undefined;

const same = (bytes: Buffer): Buffer => bytes;

/** A server without TLS that has every method and does what a test tells it. */
export class FakeServices {
  readonly calls: FakeCall[] = [];
  /** How calls with one request are answered, and streams of requests before they are read. */
  answer: (call: FakeCall) => FakeAnswer = () => Buffer.alloc(0);
  /** What sends a stream of answers; it ends at once unless said. */
  stream: (call: ServerWritableStream<Buffer, Buffer>) => void = (call) => call.end();
  /** What reads a stream of requests; undefined: `answer` answers unread. */
  reader: ((call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>) => void) | undefined;
  private server: Server | undefined;
  private port = 0;

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** How often a method was called. */
  count(path: string): number {
    return this.calls.filter((call) => call.path === path).length;
  }

  /** Listens, on the same port as before. */
  async start(): Promise<void> {
    const server = (this.server = new Server());
    for (const { path, kind } of descriptors.methods.values()) {
      if (kind === 'unary') server.register(path, (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => this.tell({ path, metadata: call.metadata, request: call.request }, done), same, same, 'unary');
      if (kind === 'client_streaming') server.register(path, (call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>) => this.receive(path, call, done), same, same, 'clientStream');
      if (kind === 'server_streaming') server.register(path, (call: ServerWritableStream<Buffer, Buffer>) => this.send(path, call), same, same, 'serverStream');
    }
    this.port = await new Promise<number>((resolve, reject) => server.bindAsync(this.address, ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound))));
  }

  /** Cuts every connection, and listens no more. */
  stop(): void {
    this.server?.forceShutdown();
  }

  private tell(call: FakeCall, done: sendUnaryData<Buffer>): void {
    this.calls.push(call);
    const answer = this.answer(call);
    if (answer === undefined) return;
    if (Buffer.isBuffer(answer)) done(null, answer);
    else done({ details: '', ...answer });
  }

  private receive(path: string, call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>): void {
    if (!this.reader) return this.tell({ path, metadata: call.metadata, request: Buffer.alloc(0) }, done);
    this.calls.push({ path, metadata: call.metadata, request: Buffer.alloc(0) });
    this.reader(call, done);
  }

  private send(path: string, call: ServerWritableStream<Buffer, Buffer>): void {
    const seen = { path, metadata: call.metadata, request: call.request };
    this.calls.push(seen);
    const answer = this.answer(seen);
    if (answer === undefined || Buffer.isBuffer(answer)) this.stream(call);
    else call.emit('error', { details: '', ...answer });
  }
}
