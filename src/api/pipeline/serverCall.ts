import type { ActiveCall } from './activeCall';
import type { MethodHandler } from './methodHandler';

/** A call on the server, independent of the transport. CallPipeline responds through it, and CallRegistry can end it. */
export interface ServerCall {
  readonly method: MethodHandler;
  readonly context: ActiveCall;
  readonly transport: 'grpc' | 'http';
  /** An object that identifies the network connection of the call. */
  readonly session: object;
  /** Returns a request header, or metadata value, by its lower-case name. */
  header(name: string): string | undefined;
  /** The API key of the call; undefined if none was sent. */
  readonly apiKey: string | undefined;
  /** Lists the organizations that the call names outside its message. */
  listOrganizations(): string[];
  /** Whether the end of the call is decided. */
  readonly isFinished: boolean;
  /** Throws if the headers are invalid for the transport, or name an unknown method. Called before the key is read. */
  checkHeaders(): void;
  /** Starts to read the messages. Called once, when the call is admitted. */
  startReading(): void;
  /** Requests the next message from the client. */
  read(): void;
  /** Sends the only response and ends the call with OK. */
  respond(response: unknown): void;
  /** The maximum number of unsent messages of a stream before the handler is asked for the next one. */
  readonly maxPendingSends: number;
  /** Sends one message of a stream. Resolves when the next one may be sent; rejects if the call has ended. */
  send(response: unknown): Promise<void>;
  /** Ends the call with OK, or with the abort reason if it was aborted. */
  succeed(): void;
  /** Ends the call with the status of the error, or with that of the abort reason if it was aborted. */
  fail(error: unknown): void;
  /** Signals the handler of a stream to stop; when it has stopped, the call ends with this reason. */
  abort(reason: Error): void;
  /** Whether the client's deadline has passed. */
  isDeadlineExceeded(): boolean;
}

/** Handles the messages of an authorized call until its end. There is one implementation for each kind of method. */
export interface Exchange {
  /** Called when the call is authorized. */
  start(): void;
  /** Called with a message that was requested by `read`. */
  onMessage(message: unknown): void;
  /** Called after the client's last message. */
  onHalfClose(): void;
  /** Called when the call is aborted. */
  onAbort(reason: Error): void;
}
