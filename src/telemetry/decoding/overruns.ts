import type { Clock } from '../../kernel/clock';

/** An uplink that a decoder reads. */
export interface DecoderRun {
  /** The decoder as it is now, in one organization; another one once its script changes. */
  readonly decoder: string;
  /** The physical device. */
  readonly device: string;
  /** The same for the same uplink of the device. */
  readonly uplink: string;
  /** Whether one of the same name may have been this one; else it was another. */
  readonly isRepetition: boolean;
}

/** One time that a decoder took too long or too much memory. */
interface Overrun {
  /** Of a device: the uplink. Of a decoder: the device. */
  readonly by: string;
  /** By the monotonic clock. */
  readonly at: number;
  /** What it took. */
  readonly ms: number;
}

interface Row {
  /** Those of the last minute, whatever was decoded between. */
  recent: readonly Overrun[];
  /** By whom or what since the last good run, at most LIMIT. */
  inARow: readonly string[];
  /** Both by the monotonic clock. */
  lastAt: number;
  restsUntil: number;
}

const LIMIT = 3;
const MOST_MS = 3000;
const MINUTE_MS = 60_000;
const REST_MS = MINUTE_MS;
const FORGOTTEN_AFTER_MS = 5 * MINUTE_MS;
const MOST_ROWS = 10_000;

/**
 * Remembers which decoders take more time or memory than they may, so that nobody waits for them again and again. One rests for a device that
 * it overran with three times in a row, or for more than 3 s of the last minute; then it is tried again, and rests at once if it overruns once more
 * before anything good. It rests for a whole organization if it overran with three different devices and no other uplink was decoded between, or
 * with three in the last minute and for more than 9 s of it; then it begins anew. So what one device sends, which may be odd or hostile, takes the
 * decoder from no other. What is older than five minutes is forgotten.
 */
export class Overruns {
  private readonly devices = new Map<string, Row>();
  private readonly decoders = new Map<string, Row>();

  constructor(private readonly clock: Pick<Clock, 'monotonic'>) {}

  /** How long the decoder still rests, in milliseconds; 0: it may run. */
  restMs(run: DecoderRun): number {
    const until = Math.max(this.decoders.get(run.decoder)?.restsUntil ?? 0, this.devices.get(keyOf(run))?.restsUntil ?? 0);
    return Math.max(0, until - this.clock.monotonic());
  }

  /** Whether the decoder overran with what this device sent last. */
  isSuspect(run: DecoderRun): boolean {
    const row = this.devices.get(keyOf(run));
    return row !== undefined && row.inARow.length > 0 && !isForgotten(row, this.clock.monotonic());
  }

  /** It overran, and took so long. An uplink that comes again counts once. */
  overran(run: DecoderRun, ms: number): void {
    const { decoder, device, uplink, isRepetition } = run;
    const at = this.clock.monotonic();
    const row = this.rowOf(this.devices, keyOf(run), at);
    if (isRepetition && (row.inARow.includes(uplink) || row.recent.some(({ by }) => by === uplink))) return;
    add(row, { by: uplink, at, ms });
    if (row.inARow.length < LIMIT) row.inARow = [...row.inARow, uplink];
    if (row.inARow.length >= LIMIT || sum(row.recent) > MOST_MS) row.restsUntil = at + REST_MS;
    this.overranWith(this.rowOf(this.decoders, decoder, at), { by: device, at, ms });
  }

  /** It ended in time, whatever it gave. */
  ended(run: DecoderRun): void {
    for (const row of [this.devices.get(keyOf(run)), this.decoders.get(run.decoder)]) if (row) row.inARow = [];
  }

  private overranWith(row: Row, overrun: Overrun): void {
    if (row.restsUntil > overrun.at) return; // it began before the rest
    add(row, overrun);
    row.inARow = [...new Set([...row.inARow, overrun.by])];
    const isSlow = sum(row.recent) > LIMIT * MOST_MS && new Set(row.recent.map(({ by }) => by)).size >= LIMIT;
    if (row.inARow.length < LIMIT && !isSlow) return;
    row.restsUntil = overrun.at + REST_MS;
    row.recent = [];
    row.inARow = [];
  }

  /** It becomes the youngest. */
  private rowOf(rows: Map<string, Row>, key: string, now: number): Row {
    const known = rows.get(key);
    const row = known && !isForgotten(known, now) ? known : { recent: [], inARow: [], lastAt: now, restsUntil: 0 };
    rows.delete(key);
    rows.set(key, row);
    row.lastAt = now;
    for (const [oldest, { lastAt }] of rows) {
      if (rows.size <= MOST_ROWS && !isForgotten({ lastAt }, now)) break;
      rows.delete(oldest);
    }
    return row;
  }
}

function add(row: Row, overrun: Overrun): void {
  row.recent = [...row.recent.filter(({ at }) => at > overrun.at - MINUTE_MS), overrun];
}

function sum(overruns: readonly Overrun[]): number {
  return overruns.reduce((total, { ms }) => total + ms, 0);
}

function isForgotten({ lastAt }: Pick<Row, 'lastAt'>, now: number): boolean {
  return lastAt < now - FORGOTTEN_AFTER_MS;
}

function keyOf({ decoder, device }: DecoderRun): string {
  return `${decoder} ${device}`;
}
