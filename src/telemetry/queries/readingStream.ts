import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { Cursors } from '../../kernel/pages';
import type { DeviceReach } from '../../kernel/reach';
import type { ReadingPositions } from '../readings/readingPositions';
import { ReadingQueryRepository } from '../readings/readingQueryRepository';
import { POSITIONS_PER_MS, type StoredReading } from '../readings/storedReading';
import { RetentionTimes } from '../retention/retentionTimes';
import { LiveReadings } from './liveReadings';
import { readingPortions } from './readingPortions';
import { sizeOfReading } from './readingSize';
import { StreamScope } from './streamScope';

/** What to watch; neither sensors nor devices: all of the organization. */
export interface StreamQuery {
  readonly sensorIds: readonly string[];
  readonly deviceIds: readonly string[];
  /** Empty: from now on. */
  readonly resumeToken: string;
  /** Of a limited key: nothing outside of it is shown, at the time when it would be. */
  readonly reach?: DeviceReach | undefined;
}

/** Some readings, and where to resume after them; empty while more of the same stretch follows. */
export interface StreamItem {
  readonly readings: readonly StoredReading[];
  readonly resumeToken: string;
}

// What a response holds: up to 16 of them wait in the transport.
const MOST_READINGS = 500;
const MOST_BYTES = 256 * 1024;
const HEADS_AT_ONCE = 2000;
// Where to resume is told after so many milliseconds without a reading.
const LONGEST_SILENCE_MS = 30_000;
// How much of the past is caught up with before it is told where to resume: it grows where little was stored, and shrinks where much was.
const FIRST_WINDOW = 60_000 * POSITIONS_PER_MS;
const LITTLE = 5000;
const MUCH = 50_000;

/** Shows readings as they are stored: live while the reader keeps up, from the database where it resumes or falls behind. */
export class ReadingStreams {
  private readonly readings: ReadingQueryRepository;
  private readonly times: RetentionTimes;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors; readonly clock: Clock; readonly positions: ReadingPositions }) {
    this.readings = new ReadingQueryRepository(options.database.db);
    this.times = new RetentionTimes(options);
  }

  /** Yields until the signal aborts. Throws `sensor_not_found`, `device_not_found`, `validation_failed`, `resume_token_expired`. */
  async *watch(organizationId: string, query: StreamQuery, signal: AbortSignal): AsyncGenerator<StreamItem> {
    const list = [organizationId, 'reading stream', JSON.stringify([query.sensorIds, query.deviceIds])];
    const given = this.options.cursors.decode<ResumePosition>(list, query.resumeToken, 'resumeToken');
    const scope = await StreamScope.open(this.options.database.db, organizationId, query);
    const live = new LiveReadings(this.options.positions, organizationId, (sensorId) => scope.mayHold(sensorId), signal);
    const tell = (readings: readonly StoredReading[], position: number): StreamItem => ({ readings, resumeToken: this.options.cursors.encode(list, this.resumeAt(position)) });
    try {
      const start = given ? await this.startAfter(organizationId, given) : await live.restart();
      yield tell([], start);
      const now = given ? yield* this.catchUp(scope, live, start, tell, signal, true) : start;
      yield* this.follow(scope, live, now, tell, signal);
    } finally {
      live.close();
    }
  }

  private async *follow(scope: StreamScope, live: LiveReadings, start: number, tell: Tell, signal: AbortSignal): AsyncGenerator<StreamItem> {
    const { clock } = this.options;
    let [position, told, toldAt] = [start, start, clock.monotonic()];
    while (!signal.aborted) {
      if (live.isBehind) {
        // What a limited key is not shown may be why it fell behind: that is not told.
        position = told = yield* this.catchUp(scope, live, position, tell, signal, !scope.isLimited);
        continue;
      }
      const { readings, until } = live.take();
      position = until;
      const shown = await scope.reached(await scope.only(readings));
      const isQuiet = until > told && clock.monotonic() - toldAt >= LONGEST_SILENCE_MS;
      if (shown.length > 0 || isQuiet) {
        yield* this.pages(scope, shown, () => tell([], until).resumeToken);
        [told, toldAt] = [until, clock.monotonic()];
      }
      await live.news(Math.max(1, LONGEST_SILENCE_MS - (clock.monotonic() - toldAt)));
    }
  }

  /** Shows what was stored after a position from the database; returns the position up to which it did. `always`: where to resume is told also where there was nothing. */
  private async *catchUp(scope: StreamScope, live: LiveReadings, start: number, tell: Tell, signal: AbortSignal, always: boolean): AsyncGenerator<StreamItem, number> {
    const until = await live.restart();
    let [position, window] = [start, FIRST_WINDOW];
    while (position < until && !signal.aborted) {
      const end = Math.min(until, position + window);
      let stored = 0;
      for await (const readings of this.stored(scope, position, end, signal)) {
        const shown = await scope.reached(readings);
        stored += shown.length;
        if (shown.length > 0) yield* this.pages(scope, shown, () => '');
      }
      if (signal.aborted) break;
      if (always || stored > 0) yield tell([], end);
      position = end;
      if (stored < LITTLE) window *= 4;
      else if (stored > MUCH) window = Math.max(1, Math.floor(window / 2));
    }
    return Math.max(position, until);
  }

  /** All of them in pages, the first at once; what has left the reach of a limited key while its reader took those before is left out. */
  private async *pages(scope: StreamScope, readings: readonly StoredReading[], tokenOfLast: () => string): AsyncGenerator<StreamItem> {
    let isFirst = true;
    for (const page of inPages(readings, tokenOfLast)) {
      yield isFirst ? page : { ...page, readings: await scope.reached(page.readings) };
      isFirst = false;
    }
  }

  /** What was stored after one position up to another, some series at once. */
  private async *stored(scope: StreamScope, after: number, until: number, signal: AbortSignal): AsyncGenerator<readonly StoredReading[]> {
    for await (const page of scope.series()) {
      const sensors = new Map(page.map(({ number, sensorId }) => [number, sensorId]));
      let last = { position: after, series: Number.MAX_SAFE_INTEGER };
      for (;;) {
        if (signal.aborted) return;
        const heads = await this.readings.stored([...sensors.keys()], last, until, HEADS_AT_ONCE);
        yield* readingPortions(this.readings, heads, (series) => sensors.get(series) ?? '');
        await othersTurn();
        if (heads.length < HEADS_AT_ONCE) break;
        last = heads.at(-1) ?? last;
      }
    }
  }

  /** A position at which nothing was stored may be given anew after a start with an earlier clock: a token never goes beyond what is on disk. */
  private resumeAt(position: number): ResumePosition {
    return { position: Math.min(position, this.options.positions.lastStored()), seen: position };
  }

  private async startAfter(organizationId: string, { position, seen }: ResumePosition): Promise<number> {
    const { positions, clock } = this.options;
    positions.close(organizationId, positions.open(organizationId));
    const last = positions.watermarkOf(organizationId);
    // After a restart readings may have been removed, the last one with them: the clock knows better what has been.
    if (position > Math.max(last, clock.now() * POSITIONS_PER_MS)) {
      throw validationFailed([{ field: 'resumeToken', description: 'is of a time that has not been yet; the data may have been put back to an earlier day: watch without a token' }]);
    }
    const { keptSince, thinnedBefore } = await this.times.of(organizationId);
    if (seen < Math.max(keptSince, thinnedBefore ?? keptSince) * POSITIONS_PER_MS) throw expired();
    return Math.min(position, last);
  }
}

/** What a token holds: all up to `position` was shown, and nothing was stored after it up to `seen`. */
interface ResumePosition {
  readonly position: number;
  readonly seen: number;
}

type Tell = (readings: readonly StoredReading[], position: number) => StreamItem;

/** All of them in pages; the last one tells where to resume. */
function* inPages(readings: readonly StoredReading[], tokenOfLast: () => string): Generator<StreamItem> {
  let [start, bytes] = [0, 0];
  for (const [at, reading] of readings.entries()) {
    const size = sizeOfReading(reading);
    if (at > start && (at - start === MOST_READINGS || bytes + size > MOST_BYTES)) {
      yield { readings: readings.slice(start, at), resumeToken: '' };
      [start, bytes] = [at, 0];
    }
    bytes += size;
  }
  yield { readings: readings.slice(start), resumeToken: tokenOfLast() };
}

function expired(): DomainError {
  return new DomainError('out_of_range', 'resume_token_expired', 'readings after the resumeToken are not all kept any more; read what is there by QueryRange, then watch without a token');
}
