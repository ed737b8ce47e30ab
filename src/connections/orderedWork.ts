/** Runs jobs: those of one key one after another, others side by side, no more than `limit` of them under way. */
export class OrderedWork {
  private readonly tails = new Map<string, Promise<void>>();
  private readonly waiting: (() => void)[] = [];
  private underWay = 0;

  constructor(private readonly limit: number) {}

  /** Takes a job in; waits while `limit` jobs are under way. The job must not reject. */
  async add(key: string, job: () => Promise<void>): Promise<void> {
    while (this.underWay >= this.limit) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.underWay += 1;
    const tail = (this.tails.get(key) ?? Promise.resolve()).then(job).finally(() => this.done(key, tail));
    this.tails.set(key, tail);
  }

  /** Resolves when no job is under way. */
  async idle(): Promise<void> {
    while (this.tails.size > 0) await Promise.all(this.tails.values());
  }

  private done(key: string, tail: Promise<void>): void {
    this.underWay -= 1;
    if (this.tails.get(key) === tail) this.tails.delete(key);
    this.waiting.shift()?.();
  }
}
