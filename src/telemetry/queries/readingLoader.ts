import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { type ReadingHead, type ReadingQueryRepository, TEXT_BATCH_SIZE } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';

// Texts of this total size are read and parsed in a few milliseconds.
const MAX_BYTES = 256 * 1024;

/**
 * Loads readings with their texts, in the given order. Long texts are loaded in small batches, with other work in
 * between.
 */
export async function* loadInBatches(
  repository: ReadingQueryRepository,
  heads: readonly ReadingHead[],
  getSensorId: (series: number) => string,
): AsyncGenerator<StoredReading[]> {
  for (const batch of splitBySize(heads)) {
    const found = await repository.loadReadings(batch, getSensorId);
    if (found.length > 0) yield found;
    if (batch.length < heads.length) await yieldToEventLoop();
  }
}

/**
 * Splits readings so that each batch has at most TEXT_BATCH_SIZE texts of at most MAX_BYTES in total; a longer text is
 * a batch of its own.
 */
function* splitBySize(heads: readonly ReadingHead[]): Generator<readonly ReadingHead[]> {
  let start = 0;
  let textCount = 0;
  let bytes = 0;
  for (const [index, { size }] of heads.entries()) {
    if (size === null) continue;
    if (textCount === TEXT_BATCH_SIZE || (textCount > 0 && bytes + size > MAX_BYTES)) {
      yield heads.slice(start, index);
      start = index;
      textCount = 0;
      bytes = 0;
    }
    textCount += 1;
    bytes += size;
  }
  yield heads.slice(start);
}
