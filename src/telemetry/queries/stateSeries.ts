import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { JsonValue } from '../../kernel/jsonValue';
import type { ReadingHead, ReadingQueryRepository } from '../readings/readingQueryRepository';
import { loadInBatches } from './readingLoader';
import { computeValueSize } from './readingSize';

/** The maximum size of all states of a response, in bytes. */
const MAX_STATE_BYTES = 1024 * 1024;
// Each search takes some microseconds.
const SEARCH_BATCH_SIZE = 200;

/** Counts the size of the states of a response, in bytes as they are sent. */
export class StateSize {
  private bytes = 0;

  /** Returns whether the states of a response would not be too large with this many bytes more. */
  canAdd(bytes: number): boolean {
    return this.bytes + bytes <= MAX_STATE_BYTES;
  }

  /** Counts the states of a series that is part of the response. */
  add(bytes: number): void {
    this.bytes += bytes;
  }
}

/** The strings or JSON values of one series. Heads are readings without their texts. */
export class StateSeries {
  constructor(
    private readonly readings: ReadingQueryRepository,
    private readonly sensor: { readonly sensorId: string; readonly series: number },
    private readonly size: StateSize,
  ) {}

  /** Returns the readings of a range; undefined if there are more than `maxPoints`. */
  async findHeads(
    { from, to }: { readonly from: number; readonly to: number },
    maxPoints: number,
  ): Promise<ReadingHead[] | undefined> {
    const heads = await this.readings.listTexts({ series: this.sensor.series, from, to }, undefined, maxPoints + 1);
    return heads.length > maxPoints ? undefined : heads;
  }

  /**
   * Lists the last reading of each bucket, without buckets that have none. Searches backwards, which costs one search
   * for each bucket instead of reading every reading.
   */
  async listLastHeads(edges: readonly number[]): Promise<ReadingHead[]> {
    const heads: ReadingHead[] = [];
    let index = edges.length - 1;
    while (index > 0) {
      const head = await this.readings.findTextBefore(this.sensor.series, edges[index] as number);
      if (!head || head.time < (edges[0] as number)) break;
      heads.push(head);
      while ((edges[index] as number) > head.time) index -= 1;
      if (heads.length % SEARCH_BATCH_SIZE === 0) await yieldToEventLoop();
    }
    return heads.toReversed();
  }

  /**
   * Loads the states of these readings. Resolves to undefined if the states of the response would be too large.
   */
  async load(heads: readonly ReadingHead[]): Promise<{ times: number[]; states: JsonValue[] } | undefined> {
    const times: number[] = [];
    const states: JsonValue[] = [];
    let bytes = 0;
    for await (const batch of loadInBatches(this.readings, heads, () => this.sensor.sensorId)) {
      for (const { time, value } of batch) {
        bytes += computeValueSize(value);
        if (!this.size.canAdd(bytes)) return undefined;
        times.push(time);
        states.push(value);
      }
    }
    this.size.add(bytes);
    return { times, states };
  }
}

/** Returns the start of the bucket of each time; both lists are in ascending order. */
export function toBucketStarts(times: readonly number[], edges: readonly number[]): number[] {
  let index = 0;
  return times.map((time) => {
    while ((edges[index + 1] as number) <= time) index += 1;
    return edges[index] as number;
  });
}
