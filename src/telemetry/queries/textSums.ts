import { type DomainError, validationFailed } from '../../kernel/errors';
import type { ReadingHead, ReadingQueryRepository } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';
import type { AggregateFunction, TextSummary } from './bucketValues';
import { readPages } from './numberSums';
import { loadInBatches } from './readingLoader';
import { computeValueSize } from './readingSize';

const MAX_TEXT_MIB = 2;
/**
 * The maximum size of the texts of one sensor, in bytes as they are sent. Typical clients accept messages of up to 4
 * MiB.
 */
export const MAX_TEXT_BYTES = MAX_TEXT_MIB * 1024 * 1024;
const HEAD_BATCH_SIZE = 2000;

/** The number of readings of a bucket, and its first and last one. */
interface BucketEnds {
  readonly count: number;
  readonly first: ReadingHead;
  readonly last: ReadingHead;
}

/**
 * Summarizes the strings and JSON values of one series for each bucket; undefined for a bucket without readings.
 * `first` and `last` are only set if requested (an empty list of functions requests all). Throws `validation_failed` if
 * these texts are too large for a response.
 */
export async function summarizeTexts(
  readings: ReadingQueryRepository,
  sensor: { readonly sensorId: string; readonly series: number },
  edges: readonly number[],
  functions: readonly AggregateFunction[],
): Promise<(TextSummary | undefined)[]> {
  const bucketEnds = await findEnds(readings, sensor, edges);
  const isRequested = (name: AggregateFunction): boolean => functions.length === 0 || functions.includes(name);
  const heads = bucketEnds.flatMap((ends) => {
    if (!ends) return [];
    const requested = new Set<ReadingHead>(); // a set, because the first and last reading may be the same
    if (isRequested('first')) requested.add(ends.first);
    if (isRequested('last')) requested.add(ends.last);
    return [...requested];
  });
  const valueByKey = new Map<string, StoredReading['value']>();
  let size = 0;
  for await (const batch of loadInBatches(readings, heads, () => sensor.sensorId)) {
    for (const reading of batch) {
      valueByKey.set(formatKey(reading), reading.value);
      size += computeValueSize(reading.value);
    }
    if (size > MAX_TEXT_BYTES) throw textsTooLarge();
  }
  return bucketEnds.map(
    (ends) =>
      ends && {
        count: ends.count,
        first: isRequested('first') ? valueByKey.get(formatKey(ends.first)) : undefined,
        last: isRequested('last') ? valueByKey.get(formatKey(ends.last)) : undefined,
      },
  );
}

/** Creates the error for a query whose strings and JSON values do not fit into a response. */
export function textsTooLarge(): DomainError {
  return validationFailed([
    {
      field: 'bucket',
      description: `makes a response with more than ${MAX_TEXT_MIB} MiB of strings and JSON: use a longer bucket or a shorter time range, omit first or last, or fill with null`,
    },
  ]);
}

/** Finds the first and last reading of each bucket and counts the readings; undefined for a bucket without readings. */
async function findEnds(
  readings: ReadingQueryRepository,
  sensor: { readonly sensorId: string; readonly series: number },
  edges: readonly number[],
): Promise<(BucketEnds | undefined)[]> {
  const range = { ...sensor, from: edges[0] as number, to: edges.at(-1) as number };
  const bucketEnds: (BucketEnds | undefined)[] = Array.from({ length: edges.length - 1 });
  let index = 0;
  for await (const page of readPages(
    (last: ReadingHead | undefined) => readings.listTexts(range, last, HEAD_BATCH_SIZE),
    HEAD_BATCH_SIZE,
  )) {
    for (const head of page) {
      while (head.time >= (edges[index + 1] as number)) index += 1;
      const ends = bucketEnds[index];
      bucketEnds[index] = { count: (ends?.count ?? 0) + 1, first: ends?.first ?? head, last: head };
    }
  }
  return bucketEnds;
}

function formatKey({ time, position }: { readonly time: number; readonly position: number }): string {
  return `${time}/${position}`;
}
