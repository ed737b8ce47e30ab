import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Cursors } from '../../kernel/pages';
import type { ReadingSequence } from '../readings/readingSequence';
import { Aggregates } from './aggregates';
import { LatestReadings } from './latestReadings';
import { ReadingRanges } from './readingRanges';
import { ReadingStreams } from './readingStreams';

/** Dependencies of SensorQueries. */
interface SensorQueryOptions {
  readonly database: Database;
  readonly cursors: Cursors;
  readonly clock: Clock;
  /** The same instance that assigns the positions of stored readings. */
  readonly positions: ReadingSequence;
}

/** All queries of readings. */
export class SensorQueries {
  readonly latest: LatestReadings;
  readonly ranges: ReadingRanges;
  readonly aggregates: Aggregates;
  readonly stream: ReadingStreams;

  constructor(options: SensorQueryOptions) {
    this.latest = new LatestReadings(options);
    this.ranges = new ReadingRanges(options);
    this.aggregates = new Aggregates(options);
    this.stream = new ReadingStreams(options);
  }
}
