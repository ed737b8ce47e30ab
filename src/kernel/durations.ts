/** How long things took since the process started, counted in classes: adding costs next to nothing, whoever shows it reads it. */
export class Durations {
  /** How many fell into each class, not counting those of the classes before; the last is of all that took longer. */
  readonly counts: readonly number[];
  private readonly classes: number[];
  private total = 0;

  /** `bounds`: the longest that each class holds, in seconds, ascending. */
  constructor(readonly bounds: readonly number[]) {
    this.classes = Array.from({ length: bounds.length + 1 }, () => 0);
    this.counts = this.classes;
  }

  /** One more, in milliseconds. */
  add(milliseconds: number): void {
    const seconds = milliseconds / 1000;
    let at = 0;
    while (at < this.bounds.length && seconds > (this.bounds[at] as number)) at += 1;
    this.classes[at] = (this.classes[at] as number) + 1;
    this.total += seconds;
  }

  /** All of them together, in seconds. */
  get sum(): number {
    return this.total;
  }
}

/** The same by word. */
export class DurationsBy<Word extends string = string> {
  private readonly all = new Map<Word, Durations>();

  constructor(private readonly bounds: readonly number[]) {}

  /** Those of a word, from now on. */
  of(word: Word): Durations {
    let known = this.all.get(word);
    if (!known) this.all.set(word, (known = new Durations(this.bounds)));
    return known;
  }

  /** Every word that was asked for. */
  entries(): Iterable<readonly [Word, Durations]> {
    return this.all;
  }
}

/** What answers at once: from a tenth of a millisecond to 10 s. */
export const QUICK: readonly number[] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** What lives for a while: from a tenth of a second to a day. */
export const LONG: readonly number[] = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400];
