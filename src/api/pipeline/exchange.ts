import { validationFailed } from '../../kernel/errors';
import { deadlineExceeded } from './activeCall';
import { BidiExchange } from './bidi';
import type { CallPipeline } from './callPipeline';
import type { BidiHandler, ClientStreamHandler } from './handlers';
import type { Exchange, ServerCall } from './serverCall';

/** Creates the exchange of an authorized call. */
export function createExchange(pipeline: CallPipeline, call: ServerCall): Exchange {
  const { descriptor, handler } = call.method;
  if (descriptor.kind === 'bidi_streaming') return new BidiExchange(call, handler as BidiHandler<unknown, unknown>);
  if (descriptor.kind === 'client_streaming')
    // A client stream is a bidirectional stream with a single response at the end.
    return new BidiExchange(call, async ({ requests }, context) => {
      const handleStream = handler as ClientStreamHandler<unknown, unknown>;
      await pipeline.processRequestStream(call, () => handleStream(requests, context));
    });
  return new SingleRequestExchange(pipeline, call);
}

/** The exchange of a unary call or a server stream: reads the request, then calls the handler. */
class SingleRequestExchange implements Exchange {
  private request: unknown;

  constructor(
    private readonly pipeline: CallPipeline,
    private readonly call: ServerCall,
  ) {}

  start(): void {
    this.call.read();
  }

  /** Keeps the message and asks for the next one, which must not exist: a second message fails the call. */
  onMessage(message: unknown): void {
    if (this.request === undefined) {
      this.request = message;
      this.call.read();
    } else {
      this.call.fail(validationFailed([{ field: '', description: 'the call has a second message: send exactly one' }]));
    }
  }

  /**
   * Processes the request when the client has sent everything. Fails the call if there was no message or the deadline
   * has passed.
   */
  onHalfClose(): void {
    const { call, request } = this;
    try {
      if (request === undefined)
        throw validationFailed([{ field: '', description: 'the call has no message: send exactly one' }]);
      if (call.isDeadlineExceeded()) throw deadlineExceeded();
      this.pipeline.process(call, request);
    } catch (error) {
      call.fail(error);
    }
  }

  onAbort(): void {} // the handler receives the abort through its signal
}
