/** Waits for SIGINT or SIGTERM. */
export interface StopSignals {
  /** Resolves with the first one. */
  readonly first: Promise<NodeJS.Signals>;
  /** Back to what the process did before. */
  remove(): void;
}

/** From now on the first signal asks for a stop, and calls `onSecond` for any further one. */
export function stopSignals(onSecond: (signal: NodeJS.Signals) => void): StopSignals {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let asked = false;
  const listener = (signal: NodeJS.Signals): void => {
    if (asked) return onSecond(signal);
    asked = true;
    resolve(signal);
  };
  process.on('SIGINT', listener).on('SIGTERM', listener);
  return { first: promise, remove: () => void process.off('SIGINT', listener).off('SIGTERM', listener) };
}
