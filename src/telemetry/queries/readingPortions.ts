import { setImmediate as othersTurn } from 'node:timers/promises';
import { type ReadingHead, type ReadingQueryRepository, TEXTS_AT_ONCE } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';

// Texts of so many bytes are read, and taken apart if they are JSON, in some milliseconds.
const MOST_BYTES = 256 * 1024;

/** Readings with their values, in their order; where texts are long a few at a time, so that others have their turn in between. */
export async function* readingPortions(readings: ReadingQueryRepository, heads: readonly ReadingHead[], sensorOf: (series: number) => string): AsyncGenerator<StoredReading[]> {
  for (const portion of portionsOf(heads)) {
    const found = await readings.readings(portion, sensorOf);
    if (found.length > 0) yield found;
    if (portion.length < heads.length) await othersTurn();
  }
}

function* portionsOf(heads: readonly ReadingHead[]): Generator<readonly ReadingHead[]> {
  let [start, texts, bytes] = [0, 0, 0];
  for (const [at, { size }] of heads.entries()) {
    if (size === null) continue;
    if (texts === TEXTS_AT_ONCE || (texts > 0 && bytes + size > MOST_BYTES)) {
      yield heads.slice(start, at);
      [start, texts, bytes] = [at, 0, 0];
    }
    texts += 1;
    bytes += size;
  }
  yield heads.slice(start);
}
