import type { sendUnaryData, ServerDuplexStream, ServerReadableStream } from '@grpc/grpc-js';
import type { Violation } from '../kernel/errors';
import type { CallContext } from './callContext';

/** Takes a request apart, calls one service method, maps the answer. */
export interface UnaryHandler<Request, Response> {
  (request: Request, context: CallContext): Promise<Response>;
  /** What is wrong with the request as far as the message alone tells, beyond the field rules of the proto; reported together with them. */
  check?: (request: Request) => Violation[];
  /**
   * What is wrong with what the request refers to, as the database tells. Asked only when something else is wrong already, so that
   * all is reported at once; else the handler finds it. Reads only, and takes whatever could be decoded: nothing of it holds for sure.
   */
  references?: References<Request>;
}

/** Looks at the references of a request of which something else is wrong. A DomainError says that there is nothing to add. */
export type References<Request> = (request: Request, context: CallContext) => Promise<Violation[]>;

/** Yields answers until it is done or the context's signal aborts; the adapter waits while the reader is slow. */
export interface ServerStreamHandler<Request, Response> {
  (request: Request, context: CallContext): AsyncIterable<Response>;
  /** What HTTP answers instead, for a method whose `http_content` is DOWNLOAD. */
  content?: (request: Request, context: CallContext) => Promise<Content>;
}

/** Bytes that HTTP answers as they are, whole or a range of them. */
export interface Content {
  /** For example `image/png`. */
  readonly contentType: string;
  readonly sizeBytes: number;
  /** Names these bytes among all others; without quotes. */
  readonly etag: string;
  /** Unix milliseconds. */
  readonly lastModified: number;
  /** The name to save it under; empty: none. */
  readonly filename: string;
  /** The bytes from `start` to before `end`. */
  read(start: number, end: number): AsyncIterable<Uint8Array>;
}

/** Content that a link opens without a key: the link itself says that it may. */
export interface LinkedContent {
  /** Where it stands, for example `/media/:id`. */
  readonly path: string;
  /** Throws not_found for a link that is forged, changed or too old. */
  open(params: Readonly<Record<string, string>>, query: URLSearchParams): Promise<Content>;
}

/** Takes the messages of a stream, each after its field rules were checked; the answer ends it with OK, a DomainError with a status. */
export type ClientStreamHandler<Request, Response> = (requests: AsyncIterable<Request>, context: CallContext) => Promise<Response>;

/** The server's side of a stream that flows both ways. */
export interface BidiStream<Request, Response> {
  /** Each message after its field rules were checked; ends when the caller has sent its last. */
  readonly requests: AsyncIterable<Request>;
  /** Resolves once the message may be followed by another: a slow reader makes the sender wait. Rejects after the end. */
  send(response: Response): Promise<void>;
}

/** Serves one stream; resolves to end it with OK, throws a DomainError to end it with a status. */
export type BidiHandler<Request, Response> = (stream: BidiStream<Request, Response>, context: CallContext) => Promise<void>;

/** The handlers of a ts-proto service definition, by method name in lowerCamelCase. */
export type HandlersOf<Server> = {
  [Method in keyof Server as string extends Method ? never : number extends Method ? never : Method]: Server[Method] extends (call: infer Call, ...rest: infer Rest) => void
    ? HandlerOf<Call, Rest>
    : never;
};

type HandlerOf<Call, Rest> =
  Call extends ServerDuplexStream<infer Request, infer Response> ? BidiHandler<Request, Response>
  : Call extends { request: infer Request; _write(chunk: infer Response, encoding: string, callback: (error?: Error) => void): void } ? ServerStreamHandler<Request, Response>
  : [Call, Rest] extends [ServerReadableStream<infer Request, unknown>, [sendUnaryData<infer Response>]] ? ClientStreamHandler<Request, Response>
  : [Call, Rest] extends [{ request: infer Request }, [sendUnaryData<infer Response>]] ? UnaryHandler<Request, Response>
  : never;

/** Gives a handler its own check of the message, and of what it refers to. */
export function checked<Request, Response>(
  check: (request: Request) => Violation[],
  handler: (request: Request, context: CallContext) => Promise<Response>,
  references?: References<Request>,
): UnaryHandler<Request, Response> {
  const withCheck: UnaryHandler<Request, Response> = (request, context) => handler(request, context);
  withCheck.check = check;
  if (references) withCheck.references = references;
  return withCheck;
}

/** Gives a handler without a check of its own one of what the request refers to. */
export function referring<Request, Response>(handler: (request: Request, context: CallContext) => Promise<Response>, references: References<Request>): UnaryHandler<Request, Response> {
  return checked(() => [], handler, references);
}
