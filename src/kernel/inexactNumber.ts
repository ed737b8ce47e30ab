import { MAX_DEPTH } from './jsonValue';

/**
 * A number in a received message that a JSON number cannot hold as it was sent: not a number (`nan`, `None`), out of
 * range (`1e400`), or with an absolute value above 2^53 - 1 (`9007199254740993`). It has no own properties, so that a
 * path never leads into it.
 */
export class InexactNumber {
  readonly #text: string;
  readonly #nearest: number;

  constructor(text: string, nearest: number) {
    this.#text = text;
    this.#nearest = nearest;
  }

  /** The number as it was sent. */
  get text(): string {
    return this.#text;
  }

  /** The nearest number: NaN if it is not a number, an infinity if it is out of range. */
  get nearest(): number {
    return this.#nearest;
  }

  /** Returns how JSON shows the number: the nearest one if it is finite, otherwise its text. */
  toJSON(): number | string {
    return Number.isFinite(this.#nearest) ? this.#nearest : this.#text;
  }
}

/** Returns the text of a value as JSON; of an InexactNumber, the number as it was sent. */
export function formatValueAsSent(value: unknown): string {
  return value instanceof InexactNumber ? value.text : JSON.stringify(value);
}

/** Creates the number for a text that JavaScript reads as `nearest`: an InexactNumber if it is not exact. */
export function toExactOrInexact(text: string, nearest: number): number | InexactNumber {
  return Math.abs(nearest) <= Number.MAX_SAFE_INTEGER ? nearest : new InexactNumber(text, nearest);
}

/**
 * Returns a copy of a decoded value with an InexactNumber in place of each number that is not finite. Values deeper
 * than MAX_DEPTH are not changed.
 */
export function replaceNonFinite(value: unknown, depthLeft: number = MAX_DEPTH): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) return new InexactNumber(String(value), value);
  if (typeof value !== 'object' || value === null || value instanceof InexactNumber || depthLeft === 0) return value;
  if (Array.isArray(value)) return value.map((item) => replaceNonFinite(item, depthLeft - 1));
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, replaceNonFinite(inner, depthLeft - 1)]));
}
