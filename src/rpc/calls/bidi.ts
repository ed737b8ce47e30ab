import type { BidiHandler, BidiStream } from '../handlers';
import type { Exchange, ServedCall } from './servedCall';

interface Waiting {
  readonly resolve: (result: IteratorResult<unknown, undefined>) => void;
  readonly reject: (reason: unknown) => void;
}

const END: IteratorResult<unknown, undefined> = { done: true, value: undefined };

/** Messages both ways. One message is read at a time, when the handler asks for it: a slow handler makes the caller wait. */
export class BidiExchange implements Exchange, BidiStream<unknown, unknown>, AsyncIterator<unknown, undefined> {
  readonly requests: AsyncIterable<unknown> = { [Symbol.asyncIterator]: () => this };
  private waiting: Waiting | undefined;
  private ended = false;
  private failure: { readonly reason: unknown } | undefined;

  constructor(
    private readonly call: ServedCall,
    private readonly handler: BidiHandler<unknown, unknown>,
  ) {}

  start(): void {
    this.run().then(
      () => this.call.succeed(),
      (error: unknown) => this.call.fail(error),
    );
  }

  send(response: unknown): Promise<void> {
    const sent = this.call.send(response);
    sent.catch(() => {}); // the end of the stream is told by `requests` as well; not everybody waits here
    return sent;
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.failure) return Promise.reject(this.failure.reason);
    if (this.ended) return Promise.resolve(END);
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
      this.call.read();
    });
  }

  return(): Promise<IteratorResult<unknown, undefined>> {
    this.ended = true;
    return Promise.resolve(END);
  }

  onMessage(message: unknown): void {
    try {
      const refused = this.call.method.accept(this.call.context, message);
      if (refused) refused.catch((error: unknown) => this.onAbort(error));
      else this.take()?.resolve({ done: false, value: message });
    } catch (error) {
      this.onAbort(error);
    }
  }

  // A caller that goes away looks for one turn like one that has sent its last message; onAbort comes first then.
  onHalfClose(): void {
    setImmediate(() => {
      this.ended = true;
      this.take()?.resolve(END);
    });
  }

  onAbort(reason: unknown): void {
    this.failure ??= { reason };
    this.take()?.reject(reason);
  }

  private take(): Waiting | undefined {
    const waiting = this.waiting;
    this.waiting = undefined;
    return waiting;
  }

  private async run(): Promise<void> {
    await this.handler(this, this.call.context);
  }
}
