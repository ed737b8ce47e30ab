import {
  type Metadata,
  Server,
  ServerCredentials,
  type status,
  type sendUnaryData,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { descriptors } from '../support/testApp';

/** A call as a server receives it. */
export interface FakeCall {
  readonly path: string;
  readonly metadata: Metadata;
  /** The bytes of the request; empty for a request stream. */
  readonly request: Buffer;
}

/** The response of a fake: the bytes of a message, or a status. Undefined: it never responds. */
export type FakeAnswer =
  Buffer | { readonly code: status; readonly details?: string; readonly metadata?: Metadata } | undefined;

const identity = (bytes: Buffer): Buffer => bytes;

/** A server without TLS that implements every method as a test defines it. */
export class FakeServices {
  readonly calls: FakeCall[] = [];
  /** Responds to calls with one request, and to request streams before they are read. */
  answer: (call: FakeCall) => FakeAnswer = () => Buffer.alloc(0);
  /** Sends a response stream. By default it ends immediately. */
  stream: (call: ServerWritableStream<Buffer, Buffer>) => void = (call) => call.end();
  /** Reads a request stream. Undefined: `answer` responds without reading it. */
  reader: ((call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>) => void) | undefined;
  private server: Server | undefined;
  private port = 0;

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Returns how often a method was called. */
  count(path: string): number {
    return this.calls.filter((call) => call.path === path).length;
  }

  /** Starts listening, on the same port as before. */
  async start(): Promise<void> {
    const server = (this.server = new Server());
    for (const { path, kind } of descriptors.methods.values()) {
      if (kind === 'unary')
        server.register(
          path,
          (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) =>
            this.respond({ path, metadata: call.metadata, request: call.request }, done),
          identity,
          identity,
          'unary',
        );
      if (kind === 'client_streaming')
        server.register(
          path,
          (call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>) => this.receive(path, call, done),
          identity,
          identity,
          'clientStream',
        );
      if (kind === 'server_streaming')
        server.register(
          path,
          (call: ServerWritableStream<Buffer, Buffer>) => this.send(path, call),
          identity,
          identity,
          'serverStream',
        );
    }
    this.port = await new Promise<number>((resolve, reject) =>
      server.bindAsync(this.address, ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
  }

  /** Breaks every connection and stops listening. */
  stop(): void {
    this.server?.forceShutdown();
  }

  private respond(call: FakeCall, done: sendUnaryData<Buffer>): void {
    this.calls.push(call);
    const answer = this.answer(call);
    if (answer === undefined) return;
    if (Buffer.isBuffer(answer)) done(null, answer);
    else done({ details: '', ...answer });
  }

  private receive(path: string, call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>): void {
    if (!this.reader) return this.respond({ path, metadata: call.metadata, request: Buffer.alloc(0) }, done);
    this.calls.push({ path, metadata: call.metadata, request: Buffer.alloc(0) });
    this.reader(call, done);
  }

  private send(path: string, call: ServerWritableStream<Buffer, Buffer>): void {
    const fakeCall = { path, metadata: call.metadata, request: call.request };
    this.calls.push(fakeCall);
    const answer = this.answer(fakeCall);
    if (answer === undefined || Buffer.isBuffer(answer)) this.stream(call);
    else call.emit('error', { details: '', ...answer });
  }
}
