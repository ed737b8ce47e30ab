/**
 * Resolves or rejects like the work. If the work takes longer than `timeoutMs` milliseconds, resolves with the value of
 * `onTimeout`, or rejects with the error that `onTimeout` throws; the work continues.
 */
export async function withTimeout<T, U>(work: Promise<T>, timeoutMs: number, onTimeout: () => U): Promise<T | U> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, timeoutMs)));
  try {
    return await Promise.race([work, timeout.then(onTimeout)]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Returns a function that calls `call` and resolves with its result, or with `fallback` after `timeoutMs`. A hanging
 * call is not started again: later callers wait for the same call, each for at most `timeoutMs`.
 */
export function shareCall<T>(timeoutMs: number, call: () => Promise<T>, fallback: T): () => Promise<T> {
  let running: Promise<T> | undefined;
  return async () => {
    running ??= call().finally(() => (running = undefined));
    return await withTimeout(running, timeoutMs, () => fallback);
  };
}
