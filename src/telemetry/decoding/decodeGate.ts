/**
 * Lets so much work through at once, and the rest wait: in each row first come, first served, the rows by turns. So the sandbox is never
 * so full of uplinks that it sends somebody away, and what goes wrong meanwhile is known before the rest of a row begins.
 */
export class DecodeGate {
  // The order of a Map is that of the turns: who went goes to its end.
  private readonly waiting = new Map<string, (() => void)[]>();
  private readonly inside = new Map<string, number>();
  private count = 0;

  constructor(private readonly limits: { readonly each: number; readonly all: number }) {}

  /** Does the work in its turn; settles as it does. */
  async pass<T>(row: string, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      const waiting = this.waiting.get(row);
      if (waiting) waiting.push(resolve);
      else this.waiting.set(row, [resolve]);
      this.open();
    });
    try {
      return await work();
    } finally {
      this.leave(row);
      this.open();
    }
  }

  private open(): void {
    for (let row = this.next(); row !== undefined; row = this.next()) this.enter(row);
  }

  private next(): string | undefined {
    if (this.count >= this.limits.all) return undefined;
    for (const row of this.waiting.keys()) if ((this.inside.get(row) ?? 0) < this.limits.each) return row;
    return undefined;
  }

  private enter(row: string): void {
    const waiting = this.waiting.get(row) ?? [];
    const first = waiting.shift();
    this.waiting.delete(row);
    if (waiting.length > 0) this.waiting.set(row, waiting);
    this.inside.set(row, (this.inside.get(row) ?? 0) + 1);
    this.count += 1;
    first?.();
  }

  private leave(row: string): void {
    const left = (this.inside.get(row) ?? 0) - 1;
    if (left > 0) this.inside.set(row, left);
    else this.inside.delete(row);
    this.count -= 1;
  }
}
