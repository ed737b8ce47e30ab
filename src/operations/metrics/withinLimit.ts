/** The same, but with `otherwise` where nothing came within so many milliseconds. One that hangs is not begun again: its end is waited for each time. */
export function withinLimit<T>(limitMs: number, ask: () => Promise<T>, otherwise: T): () => Promise<T> {
  let asking: Promise<T> | undefined;
  return async () => {
    asking ??= ask().finally(() => (asking = undefined));
    const { promise: late, resolve } = Promise.withResolvers<T>();
    const timer = setTimeout(() => resolve(otherwise), limitMs);
    return await Promise.race([asking, late]).finally(() => clearTimeout(timer));
  };
}
