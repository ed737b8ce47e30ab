import type { sendUnaryData, ServerDuplexStream, ServerReadableStream } from '@grpc/grpc-js';
import type { Violation } from '../../kernel/errors';
import type { CallContext } from './callContext';

/** Handles a method with one request and one response: maps the request, calls a service, maps the result. */
export interface UnaryHandler<Request, Response> {
  (request: Request, context: CallContext): Promise<Response>;
  /**
   * Returns violations that the message alone shows, beyond the field rules of the proto. They are reported together
   * with the violations of those rules.
   */
  check?: (request: Request) => Violation[];
  /**
   * Returns violations of references to records in the database. It is called only for a request that is already
   * invalid, so that all violations are reported together; for a valid request the handler finds them. It only reads,
   * and it must accept any decoded message, because the message has violations.
   */
  references?: References<Request>;
}

/** Checks the references of a request that is already invalid. A DomainError means that there is nothing to add. */
export type References<Request> = (request: Request, context: CallContext) => Promise<Violation[]>;

/**
 * Yields responses until it is done or the context's signal aborts. The next response is requested only when the client
 * has read enough of the earlier ones.
 */
export interface ServerStreamHandler<Request, Response> {
  (request: Request, context: CallContext): AsyncIterable<Response>;
  /** Returns the content of the HTTP response, for a method whose `http_content` is DOWNLOAD. */
  content?: (request: Request, context: CallContext) => Promise<Content>;
}

/** Bytes that HTTP returns unchanged, completely or as a range. */
export interface Content {
  /** For example `image/png`. */
  readonly contentType: string;
  readonly sizeBytes: number;
  /** Identifies this version of the bytes; without quotes. */
  readonly etag: string;
  /** Unix milliseconds. */
  readonly lastModified: number;
  /** The suggested file name for saving; empty if there is none. */
  readonly filename: string;
  /** Reads the bytes from `start` (inclusive) to `end` (exclusive). */
  read(start: number, end: number): AsyncIterable<Uint8Array>;
}

/** Content that a signed link opens without an API key. */
export interface LinkedContent {
  /** The route, for example `/media/:id`. */
  readonly path: string;
  /** Throws not_found for a link that is forged, modified or expired. */
  open(params: Readonly<Record<string, string>>, query: URLSearchParams): Promise<Content>;
}

/**
 * Handles the messages of a client stream; each has passed its field rules. The returned response ends the stream with
 * OK, a thrown DomainError ends it with an error status.
 */
export type ClientStreamHandler<Request, Response> = (
  requests: AsyncIterable<Request>,
  context: CallContext,
) => Promise<Response>;

/** The server side of a bidirectional stream. */
export interface BidiStream<Request, Response> {
  /** The messages that passed their field rules or were noted as invalid; ends after the client's last message. */
  readonly requests: AsyncIterable<Request>;
  /**
   * Resolves when the next message may be sent, so a slow client delays the sender. Rejects after the end of the call.
   */
  send(response: Response): Promise<void>;
}

/** Handles one bidirectional stream. Resolve to end it with OK; throw a DomainError to end it with an error status. */
export interface BidiHandler<Request, Response> {
  (stream: BidiStream<Request, Response>, context: CallContext): Promise<void>;
  /**
   * Called with a message that violates field rules. True: the handler has noted the violations, receives the message
   * like any other and rejects it itself. False, or no such function: the stream ends with the violations.
   */
  noteInvalid?: (request: Request, violations: readonly Violation[]) => boolean;
}

/** The handlers of a ts-proto service definition, by method name in lowerCamelCase. */
export type HandlersOf<Server> = {
  [
    Method in keyof Server as string extends Method ? never : number extends Method ? never : Method
  ]: Server[Method] extends (call: infer Call, ...rest: infer Rest) => void ? HandlerOf<Call, Rest> : never;
};

type HandlerOf<Call, Rest> =
  Call extends ServerDuplexStream<infer Request, infer Response>
    ? BidiHandler<Request, Response>
    : Call extends {
          request: infer Request;
          _write(chunk: infer Response, encoding: string, callback: (error?: Error) => void): void;
        }
      ? ServerStreamHandler<Request, Response>
      : [Call, Rest] extends [ServerReadableStream<infer Request, unknown>, [sendUnaryData<infer Response>]]
        ? ClientStreamHandler<Request, Response>
        : [Call, Rest] extends [{ request: infer Request }, [sendUnaryData<infer Response>]]
          ? UnaryHandler<Request, Response>
          : never;

/** Returns a handler with a check of the message, and optionally of its references (ids of other records). */
export function withCheck<Request, Response>(
  check: (request: Request) => Violation[],
  handler: (request: Request, context: CallContext) => Promise<Response>,
  references?: References<Request>,
): UnaryHandler<Request, Response> {
  const checkedHandler: UnaryHandler<Request, Response> = (request, context) => handler(request, context);
  checkedHandler.check = check;
  if (references) checkedHandler.references = references;
  return checkedHandler;
}

/** Like `withCheck`, with only the check of the references of the message (ids of other records). */
export function withReferences<Request, Response>(
  handler: (request: Request, context: CallContext) => Promise<Response>,
  references: References<Request>,
): UnaryHandler<Request, Response> {
  return withCheck(() => [], handler, references);
}
