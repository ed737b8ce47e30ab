import { setImmediate } from 'node:timers/promises';

/** Yields to the event loop. Rejects with the reason of its signal after that is aborted. */
export type YieldToEventLoop = () => Promise<void>;

/** Creates a function that yields to the event loop once, which also lets process signals be handled. */
export function createYield(signal: AbortSignal | undefined): YieldToEventLoop {
  return async () => {
    await setImmediate();
    signal?.throwIfAborted();
  };
}
