/** Counts events by label since the process started. Adding is cheap. */
export class Counter<Label extends string = string> {
  private readonly counts = new Map<Label, number>();

  /** `expected` labels are reported as 0 from the start, so that a monitor sees the first increment. */
  constructor(expected: readonly Label[] = []) {
    for (const label of expected) this.counts.set(label, 0);
  }

  /** Increases the count of a label. */
  add(label: Label, amount = 1): void {
    this.counts.set(label, (this.counts.get(label) ?? 0) + amount);
  }

  /** Returns every label with its count. */
  entries(): Iterable<readonly [Label, number]> {
    return this.counts;
  }
}
