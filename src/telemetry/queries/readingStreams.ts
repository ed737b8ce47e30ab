import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { Cursors } from '../../kernel/pages';
import type { DeviceScope } from '../../kernel/resourceScope';
import type { ReadingSequence } from '../readings/readingSequence';
import { ReadingQueryRepository } from '../readings/readingQueryRepository';
import { getFirstPosition, POSITIONS_PER_MS, type StoredReading } from '../readings/storedReading';
import { RetentionTimes } from '../retention/retentionTimes';
import { LiveReadings } from './liveReadings';
import { loadInBatches } from './readingLoader';
import { estimateReadingSize } from './readingSize';
import { StreamScope } from './streamScope';

/** The sensors and devices to stream; all of the organization if both lists are empty. */
export interface StreamQuery {
  readonly sensorIds: readonly string[];
  readonly deviceIds: readonly string[];
  /** Empty to start now. */
  readonly resumeToken: string;
  /** The devices that a limited API key may access. Readings of other devices at the time of sending are omitted. */
  readonly keyScope?: DeviceScope | undefined;
}

/** Readings and the token to resume after them. The token is empty if more readings of the same batch follow. */
export interface StreamItem {
  readonly readings: readonly StoredReading[];
  readonly resumeToken: string;
}

// The limits of one response. Up to 16 responses wait in the transport.
const MAX_READINGS = 500;
const MAX_BYTES = 256 * 1024;
const HEAD_BATCH_SIZE = 2000;
// After this time without readings, an item with only a resume token is sent.
const MAX_IDLE_MS = 30_000;
// The range of positions that is read between two resume tokens while catching up. It grows after a range with few
// readings and shrinks after one with many.
const INITIAL_WINDOW_SIZE = 60_000 * POSITIONS_PER_MS;
const FEW_READINGS = 5000;
const MANY_READINGS = 50_000;

/**
 * Streams readings as they are stored: from memory while the reader keeps up, from the database when it resumes or
 * falls behind. Readings are ordered by position: the time at which they were stored in milliseconds, times
 * POSITIONS_PER_MS, plus a counter. The watermark of an organization is the position up to which all its readings are
 * on disk.
 */
export class ReadingStreams {
  private readonly readings: ReadingQueryRepository;
  private readonly times: RetentionTimes;

  constructor(
    private readonly options: {
      readonly database: Database;
      readonly cursors: Cursors;
      readonly clock: Clock;
      readonly positions: ReadingSequence;
    },
  ) {
    this.readings = new ReadingQueryRepository(options.database.db);
    this.times = new RetentionTimes(options);
  }

  /**
   * Yields items until the signal aborts. Throws `sensor_not_found`, `device_not_found`, `validation_failed`,
   * `resume_token_expired`.
   */
  async *watch(organizationId: string, query: StreamQuery, signal: AbortSignal): AsyncGenerator<StreamItem> {
    const streamKey = [organizationId, 'reading stream', JSON.stringify([query.sensorIds, query.deviceIds])];
    const resumed = this.options.cursors.decode<ResumePosition>(streamKey, query.resumeToken, 'resumeToken');
    const scope = await StreamScope.open(this.options.database.db, organizationId, query);
    const live = new LiveReadings(
      this.options.positions,
      organizationId,
      (sensorId) => scope.mayInclude(sensorId),
      signal,
    );
    const createItem = (readings: readonly StoredReading[], position: number): StreamItem => ({
      readings,
      resumeToken: this.options.cursors.encode(streamKey, this.toResumePosition(position)),
    });
    try {
      const session: StreamSession = { scope, live, createItem, signal };
      const start = resumed ? await this.findStartPosition(organizationId, resumed) : await live.restart();
      yield createItem([], start);
      const position = resumed ? yield* this.catchUp(session, start, { sendEmpty: true }) : start;
      yield* this.follow(session, position);
    } finally {
      live.close();
    }
  }

  /**
   * Yields readings as they are stored, from a position on; after MAX_IDLE_MS without any, an item with only a resume
   * token. If the reader is too slow for the readings in memory, it catches up from the database.
   */
  private async *follow(session: StreamSession, start: number): AsyncGenerator<StreamItem> {
    const { scope, live, createItem, signal } = session;
    const { clock } = this.options;
    let position = start;
    let sentPosition = start;
    let sentAt = clock.monotonic();
    while (!signal.aborted) {
      if (live.isBehind) {
        // A restricted key may have fallen behind because of readings that it must not see, so empty items could reveal
        // them.
        position = yield* this.catchUp(session, position, { sendEmpty: !scope.isLimited });
        sentPosition = position;
        continue;
      }
      const { readings, until } = live.drain();
      position = until;
      const visible = await scope.filterByKeyScope(await scope.filterByScope(readings));
      const isIdle = until > sentPosition && clock.monotonic() - sentAt >= MAX_IDLE_MS;
      if (visible.length > 0 || isIdle) {
        yield* this.createItems(scope, visible, () => createItem([], until).resumeToken);
        sentPosition = until;
        sentAt = clock.monotonic();
      }
      await live.wait(Math.max(1, MAX_IDLE_MS - (clock.monotonic() - sentAt)));
    }
  }

  /**
   * Yields the readings after a position from the database, in ranges of positions (windows), each followed by a resume
   * token. A window grows after few readings and shrinks after many. Returns the position up to which all readings were
   * sent. `sendEmpty`: also yield resume tokens for windows without readings.
   */
  private async *catchUp(
    { scope, live, createItem, signal }: StreamSession,
    start: number,
    { sendEmpty }: { readonly sendEmpty: boolean },
  ): AsyncGenerator<StreamItem, number> {
    const until = await live.restart();
    let position = start;
    let windowSize = INITIAL_WINDOW_SIZE;
    while (position < until && !signal.aborted) {
      const end = Math.min(until, position + windowSize);
      let sentCount = 0;
      for await (const readings of this.readStored(scope, position, end, signal)) {
        const visible = await scope.filterByKeyScope(readings);
        sentCount += visible.length;
        if (visible.length > 0) yield* this.createItems(scope, visible, () => '');
      }
      if (signal.aborted) break;
      if (sendEmpty || sentCount > 0) yield createItem([], end);
      position = end;
      if (sentCount < FEW_READINGS) windowSize *= 4;
      else if (sentCount > MANY_READINGS) windowSize = Math.max(1, Math.floor(windowSize / 2));
    }
    return Math.max(position, until);
  }

  /**
   * Yields the readings in items. The scope of the API key is checked again before each further item, because it may
   * have changed while the reader was receiving the previous one.
   */
  private async *createItems(
    scope: StreamScope,
    readings: readonly StoredReading[],
    createLastToken: () => string,
  ): AsyncGenerator<StreamItem> {
    let isFirst = true;
    for (const item of splitIntoItems(readings, createLastToken)) {
      yield isFirst ? item : { ...item, readings: await scope.filterByKeyScope(item.readings) };
      isFirst = false;
    }
  }

  /** Reads the readings after one position up to another, a batch of series at a time. */
  private async *readStored(
    scope: StreamScope,
    after: number,
    until: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly StoredReading[]> {
    for await (const page of scope.listSeries()) {
      const sensorBySeries = new Map(page.map(({ number, sensorId }) => [number, sensorId]));
      let last = { position: after, series: Number.MAX_SAFE_INTEGER }; // after all readings at the position `after`
      for (;;) {
        if (signal.aborted) return;
        const heads = await this.readings.listStored([...sensorBySeries.keys()], last, until, HEAD_BATCH_SIZE);
        yield* loadInBatches(this.readings, heads, (series) => sensorBySeries.get(series) ?? '');
        await yieldToEventLoop();
        if (heads.length < HEAD_BATCH_SIZE) break;
        last = heads.at(-1) ?? last;
      }
    }
  }

  /**
   * Limits the position of a token to the last stored one. A greater position may be assigned again after a restart
   * with an earlier clock. `seen`: the position up to which the reader has seen that no more readings were stored.
   */
  private toResumePosition(position: number): ResumePosition {
    return { position: Math.min(position, this.options.positions.getLastStored()), seen: position };
  }

  /**
   * Returns the position at which a resumed stream starts. Throws `validation_failed` for a position in the future, and
   * `resume_token_expired` if readings after it may be deleted.
   */
  private async findStartPosition(organizationId: string, { position, seen }: ResumePosition): Promise<number> {
    const { positions, clock } = this.options;
    // Opening and closing a position raises the watermark, up to which all readings are on disk, to the current time.
    positions.close(organizationId, positions.open(organizationId));
    const watermark = positions.getWatermark(organizationId);
    // After a restart the watermark comes from the newest stored reading. If retention has deleted newer ones, a valid
    // token is beyond the watermark, so positions up to the current time are accepted.
    if (position > Math.max(watermark, getFirstPosition(clock.now()))) {
      throw validationFailed([
        {
          field: 'resumeToken',
          description: 'is in the future: the data may have been restored from an older backup; stream without a token',
        },
      ]);
    }
    const { keptSince, downsampledBefore } = await this.times.get(organizationId);
    if (seen < getFirstPosition(Math.max(keptSince, downsampledBefore ?? keptSince))) throw tokenExpired();
    return Math.min(position, watermark);
  }
}

/** The content of a token: all readings up to `position` were sent, and none are stored after it up to `seen`. */
interface ResumePosition {
  readonly position: number;
  readonly seen: number;
}

/** What the parts of one stream share. */
interface StreamSession {
  readonly scope: StreamScope;
  readonly live: LiveReadings;
  readonly signal: AbortSignal;
  /** Creates an item whose resume token continues after a position. */
  readonly createItem: (readings: readonly StoredReading[], position: number) => StreamItem;
}

/** Splits readings into items. The last item has the resume token. */
function* splitIntoItems(readings: readonly StoredReading[], createLastToken: () => string): Generator<StreamItem> {
  let start = 0;
  let bytes = 0;
  for (const [index, reading] of readings.entries()) {
    const size = estimateReadingSize(reading);
    if (index > start && (index - start === MAX_READINGS || bytes + size > MAX_BYTES)) {
      yield { readings: readings.slice(start, index), resumeToken: '' };
      start = index;
      bytes = 0;
    }
    bytes += size;
  }
  yield { readings: readings.slice(start), resumeToken: createLastToken() };
}

/** Creates the error for a token after which readings are already deleted. */
function tokenExpired(): DomainError {
  return new DomainError(
    'out_of_range',
    'resume_token_expired',
    'some readings after the resumeToken are already deleted: stream without a token, then read the remaining ones with QueryRange',
  );
}
