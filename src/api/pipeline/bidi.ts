import { DomainError } from '../../kernel/errors';
import type { BidiHandler, BidiStream } from './handlers';
import type { Exchange, ServerCall } from './serverCall';
import { DecodeFailure } from './decodeFailure';

/** The handler's pending request for the next message. */
interface PendingRead {
  readonly resolve: (result: IteratorResult<unknown, undefined>) => void;
  readonly reject: (reason: unknown) => void;
}

const END: IteratorResult<unknown, undefined> = { done: true, value: undefined };

/**
 * The exchange of a bidirectional or client stream. One message is read at a time, when the handler requests it, so a
 * slow handler delays the client.
 */
export class BidiExchange implements Exchange, BidiStream<unknown, unknown>, AsyncIterator<unknown, undefined> {
  readonly requests: AsyncIterable<unknown> = { [Symbol.asyncIterator]: () => this };
  private pendingRead: PendingRead | undefined;
  private isEnded = false;
  private failure: { readonly reason: unknown } | undefined;

  constructor(
    private readonly call: ServerCall,
    private readonly handler: BidiHandler<unknown, unknown>,
  ) {}

  /** Runs the handler and ends the call with its result. */
  start(): void {
    this.run().then(
      () => this.call.succeed(),
      (error: unknown) => this.call.fail(error),
    );
  }

  /** Sends a response. The promise rejects if the call has ended. */
  send(response: unknown): Promise<void> {
    const sent = this.call.send(response);
    sent.catch(() => {}); // a handler may ignore this promise: `requests` reports the end of the stream too
    return sent;
  }

  /** Requests the next message of the client for the handler, which iterates over `requests`. */
  next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.failure) return Promise.reject(this.failure.reason);
    if (this.isEnded) return Promise.resolve(END);
    return new Promise((resolve, reject) => {
      this.pendingRead = { resolve, reject };
      this.call.read();
    });
  }

  /** Called when the handler leaves its loop over `requests` early. */
  return(): Promise<IteratorResult<unknown, undefined>> {
    this.isEnded = true;
    return Promise.resolve(END);
  }

  /**
   * Validates a message and passes it to the handler. An invalid message ends the stream, unless the handler notes its
   * violations and rejects the message itself. `validate` throws, or returns a promise that rejects after further
   * checks.
   */
  onMessage(message: unknown): void {
    try {
      const rejection = this.call.method.validate(this.call.context, message);
      if (rejection) rejection.catch((error: unknown) => this.onAbort(error));
      else this.takePendingRead()?.resolve({ done: false, value: message });
    } catch (error) {
      if (this.noteInvalid(message, error)) this.takePendingRead()?.resolve({ done: false, value: message });
      else this.onAbort(error);
    }
  }

  /**
   * Processes the end of the client's messages two turns of the event loop later. A Node.js client that cancels a call
   * first half-closes it and resets it in the next packet; the delay lets the reset call `onAbort` first, so that the
   * handler sees a cancellation and not a normal end.
   */
  onHalfClose(): void {
    setImmediate(() => setImmediate(() => this.end()));
  }

  /** Makes the current and all later reads of the handler fail with the reason. The first reason is kept. */
  onAbort(reason: unknown): void {
    this.failure ??= { reason };
    this.takePendingRead()?.reject(reason);
  }

  /** Tells the handler that the client sends no more messages. */
  private end(): void {
    this.isEnded = true;
    this.takePendingRead()?.resolve(END);
  }

  /**
   * Passes an invalid message to the handler. Returns true if the handler rejects the message itself and the stream
   * stays open.
   */
  private noteInvalid(message: unknown, error: unknown): boolean {
    if (message instanceof DecodeFailure || !(error instanceof DomainError)) return false;
    if (error.violations.length === 0) return false;
    return this.handler.noteInvalid?.(message, error.violations) ?? false;
  }

  /** Returns the pending read of the handler and clears it, so that it is settled only once. */
  private takePendingRead(): PendingRead | undefined {
    const pending = this.pendingRead;
    this.pendingRead = undefined;
    return pending;
  }

  /** Runs the handler. It is async, so that an error that the handler throws at once becomes a rejection. */
  private async run(): Promise<void> {
    await this.handler(this, this.call.context);
  }
}
