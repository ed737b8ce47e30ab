/** Lets the work on one key wait for that before it, and on different keys go on at once. */
export class KeyedTurns {
  private readonly last = new Map<string, Promise<void>>();

  /** Resolves when it is one's turn; what it gives ends the turn, and is to be called in any case. */
  async take(key: string): Promise<() => void> {
    const before = this.last.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.last.set(key, promise);
    await before;
    return () => {
      if (this.last.get(key) === promise) this.last.delete(key);
      resolve();
    };
  }
}
