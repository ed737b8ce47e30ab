import { type Clock, systemClock } from '../../kernel/clock';

/** Waits for SIGINT or SIGTERM. */
export interface StopSignals {
  /** Resolves with the first one. */
  readonly first: Promise<NodeJS.Signals>;
  /** Back to what the process did before. */
  remove(): void;
}

// A terminal and npm each pass on what a person pressed once: what comes this soon, in milliseconds, is the same wish.
const SAME_WISH_MS = 1000;

/** From now on the first signal asks for a stop, and calls `onSecond` for one that comes more than a second later. */
export function stopSignals(clock: Clock, onSecond: (signal: NodeJS.Signals) => void): StopSignals {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let askedAt: number | undefined;
  const listener = (signal: NodeJS.Signals): void => {
    const now = clock.monotonic();
    if (askedAt === undefined) {
      askedAt = now;
      resolve(signal);
    } else if (now - askedAt > SAME_WISH_MS) {
      onSecond(signal);
    }
  };
  process.on('SIGINT', listener).on('SIGTERM', listener);
  return { first: promise, remove: () => void process.off('SIGINT', listener).off('SIGTERM', listener) };
}

/** For work that can be stopped: the first SIGINT or SIGTERM aborts `signal`, one that comes more than a second later ends the process. */
export function stoppable(): { readonly signal: AbortSignal; remove(): void } {
  const signals = stopSignals(systemClock, () => process.exit(1));
  const stop = new AbortController();
  void signals.first.then(() => stop.abort());
  return { signal: stop.signal, remove: () => signals.remove() };
}
