/** How often things happened since the process started, by word. Adding costs next to nothing; whoever shows it reads it. */
export class Tally<Word extends string = string> {
  private readonly counts = new Map<Word, number>();

  /** `expected` are shown from the beginning, with 0: who watches a count has to see its first step. */
  constructor(expected: readonly Word[] = []) {
    for (const word of expected) this.counts.set(word, 0);
  }

  /** So many more. */
  add(word: Word, more = 1): void {
    this.counts.set(word, (this.counts.get(word) ?? 0) + more);
  }

  /** How often so far. */
  of(word: Word): number {
    return this.counts.get(word) ?? 0;
  }

  /** Every word with its count. */
  entries(): Iterable<readonly [Word, number]> {
    return this.counts;
  }
}
