import { validationFailed, type Violation } from '../../kernel/errors';
import type { BidiHandler, ClientStreamHandler, ServerStreamHandler, UnaryHandler } from '../handlers';
import { deadlineExceeded } from '../openCall';
import { BidiExchange } from './bidi';
import type { Exchange, ServedCall } from './servedCall';

/** The exchange of a call that was admitted. */
export function exchangeOf(call: ServedCall): Exchange {
  const { facts, handler } = call.method;
  if (facts.kind === 'bidi_streaming') return new BidiExchange(call, handler as BidiHandler<unknown, unknown>);
  if (facts.kind === 'client_streaming') return new BidiExchange(call, answerAtEnd(call, handler as ClientStreamHandler<unknown, unknown>));
  return new OneRequest(call);
}

/** One message from the caller, then the handler. */
class OneRequest implements Exchange {
  private request: unknown;

  constructor(private readonly call: ServedCall) {}

  start(): void {
    this.call.read();
  }

  onMessage(message: unknown): void {
    if (this.request === undefined) {
      this.request = message;
      this.call.read();
    } else {
      this.call.fail(validationFailed([{ field: '', description: 'the call holds a second message; send exactly one' }]));
    }
  }

  onHalfClose(): void {
    const { call, request } = this;
    try {
      if (request === undefined) throw validationFailed([{ field: '', description: 'the call holds no message; send exactly one' }]);
      if (call.isLate()) throw deadlineExceeded();
      serve(call, request);
    } catch (error) {
      call.fail(error);
    }
  }

  onAbort(): void {} // the handler has the signal
}

/**
 * Takes in the one message of a call and lets the handler answer it, once or with a stream. `found`: what is wrong with the message
 * already. Throws what `readmit` and `accept` throw.
 */
export function serve(call: ServedCall, request: unknown, found?: readonly Violation[]): void {
  const { ending } = call.context;
  if (ending?.inside) ending.inside(() => serveNow(call, request, found));
  else serveNow(call, request, found);
}

function serveNow(call: ServedCall, request: unknown, found: readonly Violation[] | undefined): void {
  const looking = call.readmit();
  if (!looking) return serveAdmitted(call, request, found);
  looking.then(() => call.context.aborted ?? serveAdmitted(call, request, found)).catch((error: unknown) => call.fail(error));
}

function serveAdmitted(call: ServedCall, request: unknown, found: readonly Violation[] | undefined): void {
  const refused = call.method.accept(call.context, request, found);
  if (refused) {
    refused.catch((error: unknown) => call.fail(error));
    return;
  }
  const prepared = call.prepare(request);
  if (prepared) prepared.then(() => answerPrepared(call, request)).catch((error: unknown) => call.fail(error));
  else answer(call, request);
}

/** What was begun in the audit trail has an end there, whatever happens. */
function answerPrepared(call: ServedCall, request: unknown): void {
  try {
    if (call.context.aborted) throw call.context.aborted; // meanwhile
    answer(call, request);
  } catch (error) {
    call.changed(request, undefined, error);
    throw error;
  }
}

function answer(call: ServedCall, request: unknown): void {
  if (call.method.isUnary) answerOnce(call, request);
  else answerMany(call, request);
}

function answerOnce(call: ServedCall, request: unknown): void {
  const answered = (response: unknown): void => {
    call.changed(request, response);
    call.answer(response);
  };
  const failed = (error: unknown): void => {
    call.changed(request, undefined, error);
    call.fail(error);
  };
  (call.method.handler as UnaryHandler<unknown, unknown>)(request, call.context).then(answered, failed);
}

/** Messages from the caller alone are a stream both ways on which the handler sends nothing but its answer. */
function answerAtEnd(call: ServedCall, handler: ClientStreamHandler<unknown, unknown>): BidiHandler<unknown, unknown> {
  return async ({ requests }, context) => {
    await call.prepare(undefined);
    try {
      const response = await handler(requests, context);
      call.changed(undefined, response);
      call.answer(response);
    } catch (error) {
      call.changed(undefined, undefined, error);
      throw error;
    }
  };
}

function answerMany(call: ServedCall, request: unknown): void {
  pump(call, (call.method.handler as ServerStreamHandler<unknown, unknown>)(request, call.context)).then(
    () => call.succeed(),
    (error: unknown) => call.fail(error),
  );
}

/** Sends what the handler yields, a few at a time, when the reader has taken those before. Leaving the loop early closes the handler. */
async function pump(call: ServedCall, responses: AsyncIterable<unknown>): Promise<void> {
  const unsent: Promise<void>[] = [];
  for await (const response of responses) {
    const sent = call.send(response);
    sent.catch(() => {}); // whoever waits for it is told below
    unsent.push(sent);
    if (unsent.length >= call.unsentAtOnce) await unsent.shift();
  }
  await Promise.all(unsent);
}
