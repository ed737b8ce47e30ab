/** Work that is under way and that somebody may wait for. */
export class ChangesUnderWay {
  private readonly running = new Set<Promise<void>>();

  /** `onFailure`: what no part of the gateway reckoned with. */
  constructor(private readonly onFailure: (error: unknown) => void) {}

  /** How many pieces of work are under way. */
  get count(): number {
    return this.running.size;
  }

  /** Begins a piece of work. Resolves with what came of it; with undefined where it failed. */
  async begin<Found>(work: () => Promise<Found>): Promise<Found | undefined> {
    const found = work().catch((error: unknown) => {
      this.onFailure(error);
      return undefined;
    });
    const running = found.then(() => void this.running.delete(running));
    this.running.add(running);
    return await found;
  }

  /** Resolves when nothing is under way. */
  async done(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }
}
