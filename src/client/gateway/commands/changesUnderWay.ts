/** Work that is under way and that somebody may wait for. */
export class ChangesUnderWay {
  private readonly running = new Set<Promise<void>>();

  /** `onFailure`: what no part of the gateway reckoned with. */
  constructor(private readonly onFailure: (error: unknown) => void) {}

  /** How many pieces of work are under way. */
  get count(): number {
    return this.running.size;
  }

  /** Begins a piece of work. */
  begin(work: () => Promise<void>): void {
    const running = work().then(
      () => void this.running.delete(running),
      (error: unknown) => {
        this.running.delete(running);
        this.onFailure(error);
      },
    );
    this.running.add(running);
  }

  /** Resolves when nothing is under way. */
  async done(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }
}
