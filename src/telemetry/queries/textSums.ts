import { type DomainError, validationFailed } from '../../kernel/errors';
import type { ReadingHead, ReadingQueryRepository } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';
import type { AggregateFunction, TextSummary } from './bucketValues';
import { pages } from './numberSums';
import { readingPortions } from './readingPortions';
import { sizeOfValue } from './readingSize';

/** Of one sensor, in bytes as they are sent. Ordinary clients take 4 MiB. */
export const MOST_TEXT = 2 * 1024 * 1024;
const HEADS_AT_ONCE = 2000;

interface Ends {
  readonly count: number;
  readonly first: ReadingHead;
  readonly last: ReadingHead;
}

/**
 * The texts and JSON values of one series in buckets, undefined for those without any; `first` and `last` only where they are asked for
 * (no functions: all). Throws `validation_failed` if these together are too large for an answer.
 */
export async function textSums(readings: ReadingQueryRepository, sensor: { readonly sensorId: string; readonly series: number }, edges: readonly number[], functions: readonly AggregateFunction[]): Promise<(TextSummary | undefined)[]> {
  const sums = await endsOf(readings, sensor, edges);
  const isAsked = (name: AggregateFunction): boolean => functions.length === 0 || functions.includes(name);
  const heads = sums.flatMap((sum) => (sum ? [...(isAsked('first') ? [sum.first] : []), ...(isAsked('last') && !(isAsked('first') && sum.last === sum.first) ? [sum.last] : [])] : []));
  const values = new Map<string, StoredReading['value']>();
  let size = 0;
  for await (const portion of readingPortions(readings, heads, () => sensor.sensorId)) {
    for (const reading of portion) {
      values.set(placeOf(reading), reading.value);
      size += sizeOfValue(reading.value);
    }
    if (size > MOST_TEXT) throw tooMuchText();
  }
  return sums.map((sum) => sum && { count: sum.count, first: isAsked('first') ? values.get(placeOf(sum.first)) : undefined, last: isAsked('last') ? values.get(placeOf(sum.last)) : undefined });
}

/** The error for buckets whose texts do not fit into an answer. */
export function tooMuchText(): DomainError {
  return validationFailed([{ field: 'bucket', description: 'makes an answer of more than 2 MiB of texts and JSON; give a longer bucket or a shorter time, leave out first or last, or fill with null' }]);
}

/** The first and the last one of each bucket, and how many there are. */
async function endsOf(readings: ReadingQueryRepository, sensor: { readonly sensorId: string; readonly series: number }, edges: readonly number[]): Promise<(Ends | undefined)[]> {
  const range = { ...sensor, from: edges[0] as number, to: edges.at(-1) as number };
  const sums: (Ends | undefined)[] = Array.from({ length: edges.length - 1 });
  let at = 0;
  for await (const page of pages((last: ReadingHead | undefined) => readings.texts(range, last, HEADS_AT_ONCE), HEADS_AT_ONCE)) {
    for (const head of page) {
      while (head.time >= (edges[at + 1] as number)) at += 1;
      const sum = sums[at];
      sums[at] = { count: (sum?.count ?? 0) + 1, first: sum ? sum.first : head, last: head };
    }
  }
  return sums;
}

function placeOf({ time, position }: { readonly time: number; readonly position: number }): string {
  return `${time}/${position}`;
}
