import type { OpenCall } from '../openCall';
import type { ServedMethod } from './servedMethod';

/** What the parts of the edge see of a call: its exchange answers through it, the edge ends it. */
export interface ServedCall {
  readonly method: ServedMethod;
  readonly context: OpenCall;
  readonly transport: 'grpc' | 'http';
  /** The caller's header of that name. */
  readonly traceparent: string | undefined;
  /** Asks for the next message. */
  read(): void;
  /** Sends the only answer and ends the call with OK. */
  answer(response: unknown): void;
  /** How many messages of a stream may be on their way before the handler is asked for the next. */
  readonly unsentAtOnce: number;
  /** Sends one message of a stream; resolves when the next may follow, rejects when the call is over. */
  send(response: unknown): Promise<void>;
  /** Ends the call with OK, or with the reason for which it was told to end. */
  succeed(): void;
  /** Ends the call with what the error table says of the error; of the reason for which it was told to end, if it was. */
  fail(error: unknown): void;
  /** Tells the handler of a stream to end; its call ends with this reason when it has. */
  abort(reason: Error): void;
  /** Looks at the key again where the message came long after it. Throws as at first; a promise where the key is not known by heart. Undefined: it passes. */
  readmit(): Promise<unknown> | undefined;
  /** What has to be done before the handler sees a request (Edge.prepare). */
  prepare(request: unknown): Promise<void> | undefined;
  /** The handler of a change has come to its end (Edge.changed). */
  changed(request: unknown, response: unknown, error?: unknown): void;
  /** Whether the caller's deadline has passed. */
  isLate(): boolean;
}

/** What happens between the admission of a call and its end, one way for each kind of method. */
export interface Exchange {
  /** The call was admitted. */
  start(): void;
  /** One message came; it was asked for. */
  onMessage(message: unknown): void;
  /** The caller has sent its last message. */
  onHalfClose(): void;
  /** The handler is told to end. */
  onAbort(reason: Error): void;
}
