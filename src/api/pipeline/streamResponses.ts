import type { ServerStreamHandler } from './handlers';
import type { ServerCall } from './serverCall';

/**
 * Calls the handler of a server stream, sends its responses and ends the call. While `maxPendingSends` responses wait
 * for the client, the handler is not asked for the next one. An error leaves the loop early, which ends the generator
 * of the handler.
 */
export async function sendResponses(call: ServerCall, request: unknown): Promise<void> {
  if (call.context.abortReason) throw call.context.abortReason;
  const pendingSends: Promise<void>[] = [];
  const handler = call.method.handler as ServerStreamHandler<unknown, unknown>;
  for await (const response of handler(request, call.context)) {
    const sent = call.send(response);
    sent.catch(() => {}); // the error is handled where the promise is awaited below
    pendingSends.push(sent);
    while (pendingSends.length >= call.maxPendingSends) await pendingSends.shift();
  }
  await Promise.all(pendingSends);
  call.succeed();
}
