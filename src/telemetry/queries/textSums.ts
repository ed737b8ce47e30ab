import { validationFailed } from '../../kernel/errors';
import type { StoredReading } from '../readings/storedReading';
import type { ReadingQueryRepository } from '../readings/readingQueryRepository';
import type { TextSummary } from './bucketValues';
import { pages } from './numberSums';

// A text may be as long as an uplink.
const PAGE = 500;
const MOST_TEXT = 2 * 1024 * 1024;

/** The texts and JSON values of one series in buckets, undefined for those without any. Throws `validation_failed` if the first and last ones together are too large for an answer. */
export async function textSums(readings: ReadingQueryRepository, sensor: { readonly sensorId: string; readonly series: number }, edges: readonly number[]): Promise<(TextSummary | undefined)[]> {
  const range = { ...sensor, from: edges[0] as number, to: edges.at(-1) as number };
  const sums: (TextSummary | undefined)[] = Array.from({ length: edges.length - 1 });
  let at = 0;
  let size = 0;
  for await (const page of pages((last: StoredReading | undefined) => readings.texts(range, last, PAGE), PAGE)) {
    for (const { time, value } of page) {
      while (time >= (edges[at + 1] as number)) at += 1;
      const sum = sums[at];
      sums[at] = { count: (sum?.count ?? 0) + 1, first: sum ? sum.first : value, last: value };
    }
  }
  for (const sum of sums) size += sum ? sizeOf(sum.first) + sizeOf(sum.last) : 0;
  if (size > MOST_TEXT) throw validationFailed([{ field: 'bucket', description: 'makes an answer of more than 2 MiB of texts and JSON; give a longer bucket or a shorter time, or leave out first and last' }]);
  return sums;
}

function sizeOf(value: StoredReading['value']): number {
  return typeof value === 'string' ? value.length : JSON.stringify(value).length;
}
