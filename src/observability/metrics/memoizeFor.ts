/**
 * Returns a function that calls `load` at most once in `durationMs` and shares its result with all callers in that
 * time, including a failure. While a call is running, all callers wait for it.
 */
export function memoizeFor<T>(durationMs: number, load: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  let expiresAt = 0;
  return () => {
    const now = performance.now();
    if (result && now < expiresAt) return result;
    expiresAt = Infinity; // the running call has no end time yet
    result = load().finally(() => (expiresAt = performance.now() + durationMs));
    return result;
  };
}
