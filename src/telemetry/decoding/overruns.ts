import type { Clock } from '../../kernel/clock';

/** Whose uplink a decoder reads. */
export interface DecoderRun {
  /** The decoder as it is now, in one organization; another one once its script changes. */
  readonly decoder: string;
  /** The physical device. */
  readonly device: string;
}

/** What overran, in a row. */
interface Row {
  /** Of a device: how often. Of a decoder: with how many devices, at most LIMIT. */
  readonly times: Set<string | number>;
  /** By the monotonic clock. */
  restsUntil: number;
}

const LIMIT = 3;
const REST_MS = 60_000;
const MOST_ROWS = 10_000;

/**
 * Remembers which decoders take more time or memory than they may, so that nobody waits for them again and again. One rests for a device that
 * it overran with three times in a row, and for a whole organization if that were three different devices and no other uplink was
 * decoded between: what one device sends, which may be odd or hostile, takes the decoder from no other. After a minute it is tried again, and
 * rests at once if it overruns again.
 */
export class Overruns {
  private readonly devices = new Map<string, Row>();
  private readonly decoders = new Map<string, Row>();

  constructor(private readonly clock: Pick<Clock, 'monotonic'>) {}

  /** How long the decoder still rests, in milliseconds; 0: it may run. */
  restMs({ decoder, device }: DecoderRun): number {
    const until = Math.max(this.decoders.get(decoder)?.restsUntil ?? 0, this.devices.get(keyOf({ decoder, device }))?.restsUntil ?? 0);
    return Math.max(0, until - this.clock.monotonic());
  }

  /** Whether the decoder overran with what this device sent last. */
  isSuspect(run: DecoderRun): boolean {
    return this.devices.has(keyOf(run));
  }

  /** It overran. */
  overran(run: DecoderRun): void {
    const row = this.rowOf(this.devices, keyOf(run));
    this.add(row, row.times.size);
    this.add(this.rowOf(this.decoders, run.decoder), run.device);
  }

  /** It ended in time, whatever it gave. */
  ended(run: DecoderRun): void {
    this.devices.delete(keyOf(run));
    this.decoders.delete(run.decoder);
  }

  private add(row: Row, time: string | number): void {
    if (row.times.size < LIMIT) row.times.add(time);
    if (row.times.size >= LIMIT) row.restsUntil = this.clock.monotonic() + REST_MS;
  }

  /** It becomes the youngest. */
  private rowOf(rows: Map<string, Row>, key: string): Row {
    const row = rows.get(key) ?? { times: new Set(), restsUntil: 0 };
    rows.delete(key);
    rows.set(key, row);
    const [oldest] = rows.keys();
    if (rows.size > MOST_ROWS && oldest !== undefined) rows.delete(oldest);
    return row;
  }
}

function keyOf({ decoder, device }: DecoderRun): string {
  return `${decoder} ${device}`;
}
