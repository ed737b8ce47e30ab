import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Cursors } from '../../kernel/pages';
import type { ReadingPositions } from '../readings/readingPositions';
import { Aggregates } from './aggregates';
import { LatestReadings } from './latestReadings';
import { ReadingRanges } from './readingRanges';
import { ReadingStreams } from './readingStream';

/** What the questions about readings need. */
export interface SensorQueryOptions {
  readonly database: Database;
  readonly cursors: Cursors;
  readonly clock: Clock;
  /** Those that readings are stored with. */
  readonly positions: ReadingPositions;
}

/** All questions about readings. */
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
