import { type Clock, systemClock } from '../../kernel/clock';

/** Listens for SIGINT and SIGTERM. */
interface StopSignals {
  /** Resolves with the first signal. */
  readonly first: Promise<NodeJS.Signals>;
  /** Removes the listeners. */
  remove(): void;
}

// The terminal and npm both pass on one key press. A signal within this time, in milliseconds, is the same key press.
const SAME_KEYPRESS_MS = 1000;

/**
 * Listens for SIGINT and SIGTERM. The first signal resolves `first`; a signal more than a second later calls
 * `onSecond`.
 */
export function listenForStopSignals(clock: Clock, onSecond: (signal: NodeJS.Signals) => void): StopSignals {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let firstAt: number | undefined;
  const listener = (signal: NodeJS.Signals): void => {
    const now = clock.monotonic();
    if (firstAt === undefined) {
      firstAt = now;
      resolve(signal);
    } else if (now - firstAt > SAME_KEYPRESS_MS) {
      onSecond(signal);
    }
  };
  process.on('SIGINT', listener).on('SIGTERM', listener);
  return { first: promise, remove: () => void process.off('SIGINT', listener).off('SIGTERM', listener) };
}

/**
 * Makes work stoppable: the first SIGINT or SIGTERM aborts `signal`; one more than a second later exits the process.
 */
export function abortOnStopSignal(): { readonly signal: AbortSignal; remove(): void } {
  const signals = listenForStopSignals(systemClock, () => process.exit(1));
  const stop = new AbortController();
  void signals.first.then(() => stop.abort());
  return { signal: stop.signal, remove: () => signals.remove() };
}
