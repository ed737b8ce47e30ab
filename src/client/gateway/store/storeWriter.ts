import { GatewayError } from '../gatewayError';
import { Gathering } from './gathering';
import { bytesOf, type GatewayStore, type StoreChange } from './gatewayStore';

/** What the writer stands on. */
export interface StoreWriterOptions {
  readonly store: GatewayStore;
  /** The store began to refuse what is to be kept. Told once, until it recovers; and once more where it turns out to be damaged. */
  readonly onFailing: (error: GatewayError) => void;
  /** It takes it in again. */
  readonly onRecovered: () => void;
  /** How soon what can wait is written where nothing comes that it could ride with, and how soon it is tried again; 50 and 1,000 ms unless said. */
  readonly waitMs?: number;
  readonly retryMs?: number;
}

interface Waiting {
  readonly change: StoreChange;
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: GatewayError) => void;
}

interface LaterChange {
  readonly change: StoreChange;
  readonly onWritten: () => void;
}

type Later = readonly [key: string, later: LaterChange];

/** What goes into one transaction: so much that the wait for the disk is shared by many, so little that nothing else waits long. */
const MOST_CHANGES = 1000;
const MOST_BYTES = 4 * 1024 * 1024;
const WAIT_MS = 50;
const RETRY_MS = 1000;
/** A store that refused uplinks, and none since for so many retries, is taken for recovered by anything that it takes. */
const QUIET_RETRIES = 10;

/**
 * Writes changes into the store, those that come together in one transaction, for the wait for the disk is the same for one and for a thousand.
 * What fails is told to who waits for it and is not tried again, but for what was given to `writeLater`.
 */
export class StoreWriter {
  private waiting: Waiting[] = [];
  /** By what they are about; tried until they are in. */
  private readonly later = new Map<string, LaterChange>();
  private turn: NodeJS.Immediate | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly gathering = new Gathering();
  private isFailing = false;
  private isDamaged = false;
  private refusesUplinks = false;
  private failedAt = 0;
  private isClosed = false;
  private uplinksWaiting = 0;
  private uplinkBytesWaiting = 0;

  constructor(private readonly options: StoreWriterOptions) {}

  /** How many uplinks are kept or about to be. */
  get uplinkCount(): number {
    return this.options.store.uplinkCount + this.uplinksWaiting;
  }

  /** How many bytes the messages of these have. */
  get uplinkBytes(): number {
    return this.options.store.uplinkBytes + this.uplinkBytesWaiting;
  }

  /** Resolves when the change is durable. Rejects with GatewayError `store_full`, `store_failed`, `store_damaged`, and `stopped` after `close`. */
  async write(change: StoreChange): Promise<void> {
    if (this.isClosed) throw new GatewayError('stopped', 'the gateway has stopped');
    this.countWaiting(change, 1);
    await new Promise<void>((resolve, reject) => {
      this.waiting.push({ change, bytes: bytesOf(change), resolve, reject });
      this.turn ??= setImmediate(this.onTurn);
    });
  }

  /**
   * Writes what need not be durable at once (acknowledgements, and a result that could not be written): with the next change, or in a moment, and again
   * until it is in. What is given twice waits once, so that no more wait than are kept. `onWritten` is called when it is in; where it was given twice, the last one's.
   */
  writeLater(change: StoreChange, onWritten: () => void = () => {}): void {
    if (this.isClosed) return; // the store would be told the same again after the next start
    const key = keyOf(change);
    this.later.delete(key);
    this.later.set(key, { change, onWritten });
    if (this.later.size >= MOST_CHANGES && !this.isFailing) this.turn ??= setImmediate(this.onTurn);
    else this.wakeIn(this.isFailing ? this.retryMs : (this.options.waitMs ?? WAIT_MS));
  }

  /** Writes all that waits, at once: before the store is read for what is not acknowledged. What fails is told as ever. */
  flush(): void {
    while (this.waiting.length > 0) this.writeBatch();
    if (this.later.size > 0) this.writeBatch();
  }

  /** Writes all that waits, and takes nothing any more. The store stays open. */
  close(): void {
    this.flush();
    this.isClosed = true;
    clearImmediate(this.turn);
    clearTimeout(this.timer);
  }

  private readonly onTurn = (): void => {
    this.turn = undefined;
    if (!this.gathering.goesOn(this.waiting.length)) this.writeBatch();
    if (this.waiting.length > 0) this.turn ??= setImmediate(this.onTurn);
  };

  private readonly onTimer = (): void => {
    this.timer = undefined;
    this.writeBatch();
  };

  private writeBatch(): void {
    const batch = this.takeBatch();
    const later = this.firstLater();
    if (batch.length === 0 && later.length === 0) return;
    const began = performance.now();
    const error = this.tryToApply([...later.map(([, { change }]) => change), ...batch.map(({ change }) => change)]);
    this.gathering.took(performance.now() - began);
    if (error === undefined) this.succeeded(batch, later);
    else this.failed(batch, later, error);
    if (this.later.size === 0) return;
    if (error === undefined) this.turn ??= setImmediate(this.onTurn);
    else this.wakeIn(this.retryMs);
  }

  private takeBatch(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const { bytes: more } of this.waiting) {
      if (count === MOST_CHANGES || (count > 0 && bytes + more > MOST_BYTES)) break;
      count += 1;
      bytes += more;
    }
    const batch = this.waiting.slice(0, count);
    this.waiting = count === this.waiting.length ? [] : this.waiting.slice(count);
    return batch;
  }

  /** More may wait than are worth copying for each batch. */
  private firstLater(): Later[] {
    const first: Later[] = [];
    for (const entry of this.later) {
      if (first.length === MOST_CHANGES) break;
      first.push(entry);
    }
    return first;
  }

  private tryToApply(changes: readonly StoreChange[]): GatewayError | undefined {
    try {
      this.options.store.apply(changes);
      return undefined;
    } catch (error) {
      return error instanceof GatewayError ? error : new GatewayError('store_failed', `the store could not be written: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }

  private succeeded(batch: readonly Waiting[], later: readonly Later[]): void {
    this.forgetLater(later);
    this.settle(batch);
    if (!this.isFailing) return;
    // What makes room may get in where uplinks do not: that alone is no recovery, or it would be told again and again.
    const isProof = !this.refusesUplinks || batch.some(({ change }) => change.kind === 'uplink') || performance.now() - this.failedAt > QUIET_RETRIES * this.retryMs;
    if (!isProof) return;
    this.isFailing = false;
    this.isDamaged = false;
    this.options.onRecovered();
  }

  /** Where there is no room for uplinks there may be for commands, which are small, and for what is forgotten: it makes room. */
  private failed(batch: readonly Waiting[], later: readonly Later[], error: GatewayError): void {
    const small = batch.filter(({ change }) => change.kind !== 'uplink');
    const large = batch.filter(({ change }) => change.kind === 'uplink');
    const hasRest = large.length > 0 && small.length + later.length > 0;
    const ofRest = hasRest ? this.tryToApply([...later.map(([, { change }]) => change), ...small.map(({ change }) => change)]) : error;
    const isIn = ofRest === undefined;
    if (isIn) this.forgetLater(later);
    this.failedAt = performance.now();
    this.refusesUplinks = large.length > 0;
    this.settle(isIn ? small : [], isIn ? large : batch, error);
    this.tellFailing(ofRest?.reason === 'store_damaged' ? ofRest : error);
  }

  /** What is damaged does not come back by itself as a full disk does: that is told whatever was told before. */
  private tellFailing(error: GatewayError): void {
    const isDamaged = error.reason === 'store_damaged';
    const isNews = !this.isFailing || (isDamaged && !this.isDamaged);
    if (!isNews) return;
    this.isFailing = true;
    this.isDamaged = isDamaged;
    this.options.onFailing(error);
  }

  private forgetLater(written: readonly Later[]): void {
    for (const [key, entry] of written) {
      if (this.later.get(key) === entry) this.later.delete(key);
      entry.onWritten();
    }
  }

  private settle(written: readonly Waiting[], refused: readonly Waiting[] = [], error?: GatewayError): void {
    for (const { change } of [...written, ...refused]) this.countWaiting(change, -1);
    for (const { resolve } of written) resolve();
    for (const { reject } of refused) reject(error as GatewayError);
  }

  private countWaiting(change: StoreChange, sign: 1 | -1): void {
    if (change.kind !== 'uplink') return;
    this.uplinksWaiting += sign;
    this.uplinkBytesWaiting += sign * bytesOf(change);
  }

  private get retryMs(): number {
    return this.options.retryMs ?? RETRY_MS;
  }

  private wakeIn(ms: number): void {
    this.timer ??= setTimeout(this.onTimer, ms).unref();
  }
}

/** Two changes of one kind about the same thing: the later one says all. */
function keyOf(change: StoreChange): string {
  if (change.kind === 'command') return `command ${change.command.executionId}`;
  if (change.kind === 'uplink') return `uplink ${change.uplink.uplinkId}`;
  return change.kind === 'command_acknowledged' ? `${change.kind} ${change.executionId}` : `${change.kind} ${change.uplinkId}`;
}
