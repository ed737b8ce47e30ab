/** Runs work on the same key one after the other, and work on different keys concurrently. */
export class KeyedMutex {
  /** The end of the last work of each key. New work waits for it, and becomes the last one. */
  private readonly lastByKey = new Map<string, Promise<void>>();

  /** Resolves when the key is locked. The caller must always call the returned function to unlock it. */
  async lock(key: string): Promise<() => void> {
    const previous = this.lastByKey.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.lastByKey.set(key, promise);
    await previous;
    return () => {
      if (this.lastByKey.get(key) === promise) this.lastByKey.delete(key); // no other work waits
      resolve();
    };
  }
}
