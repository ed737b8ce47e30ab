import { GatewayError } from '../gatewayError';
import { WriteCoalescer } from './writeCoalescer';
import { getMessageSize, type GatewayStore, type StoreChange } from './gatewayStore';

/** Dependencies of StoreWriter. */
export interface StoreWriterOptions {
  readonly store: GatewayStore;
  /** Called once when the store starts to reject writes, and once more if it turns out to be corrupt. */
  readonly onFailing: (error: GatewayError) => void;
  /** Called when the store accepts writes again. */
  readonly onRecovered: () => void;
  /** The maximum delay of `writeLater` changes, in milliseconds; default 50. */
  readonly waitMs?: number;
  /** The retry interval after a failure, in milliseconds; default 1,000. */
  readonly retryMs?: number;
}

/** A change of `write` that waits for its transaction, with the functions that settle the promise of its caller. */
interface PendingChange {
  readonly change: StoreChange;
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: GatewayError) => void;
}

/** A change of `writeLater`. */
interface DeferredChange {
  readonly change: StoreChange;
  readonly onWritten: () => void;
}

type DeferredEntry = readonly [key: string, deferred: DeferredChange];

/** Limits of one transaction: large enough to share one disk write, small enough that others do not wait long. */
const MAX_BATCH_SIZE = 1000;
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
const DEFAULT_WAIT_MS = 50;
const DEFAULT_RETRY_MS = 1000;
/**
 * A store that rejected uplinks is considered recovered after any successful write once this many retry intervals have
 * passed without a rejection.
 */
const QUIET_RETRIES = 10;

/**
 * Writes changes to the store. Changes that arrive together share one transaction, because a disk write takes the same
 * time for one as for a thousand. A failure is reported to the caller and not retried, except for `writeLater`.
 */
export class StoreWriter {
  private pending: PendingChange[] = [];
  /** Changes of `writeLater` by key; retried until they are written. */
  private readonly deferred = new Map<string, DeferredChange>();
  /** The next attempt to write, in the next turn of the event loop. */
  private immediate: NodeJS.Immediate | undefined;
  /** The next write of deferred changes. */
  private timer: NodeJS.Timeout | undefined;
  private readonly coalescer = new WriteCoalescer();
  private isFailing = false;
  private isCorrupt = false;
  /** Whether the last failed batch contained uplinks. */
  private rejectsUplinks = false;
  private failedAt = 0;
  private isClosed = false;
  private pendingUplinkCount = 0;
  private pendingUplinkBytes = 0;

  constructor(private readonly options: StoreWriterOptions) {}

  /** The number of uplinks that are stored or pending. */
  get uplinkCount(): number {
    return this.options.store.uplinkCount + this.pendingUplinkCount;
  }

  /** The total size of the messages of these uplinks, in bytes. */
  get uplinkBytes(): number {
    return this.options.store.uplinkBytes + this.pendingUplinkBytes;
  }

  /**
   * Writes a change. Resolves when it is durable. Rejects with GatewayError `store_full`, `store_failed`,
   * `store_corrupt`, and `stopped` after `close`.
   */
  async write(change: StoreChange): Promise<void> {
    if (this.isClosed) throw new GatewayError('stopped', 'the gateway has stopped');
    this.countPending(change, 1);
    await new Promise<void>((resolve, reject) => {
      this.pending.push({ change, bytes: getMessageSize(change), resolve, reject });
      this.immediate ??= setImmediate(this.onImmediate);
    });
  }

  /**
   * Writes a change that need not be durable immediately (acknowledgements, and a result that could not be written):
   * with the next change or after a short delay, retried until it is written. A later change with the same key replaces
   * an earlier one, so the number of deferred changes is bounded. `onWritten` is called when the change is written; for
   * a replaced change, only the last `onWritten` is called.
   */
  writeLater(change: StoreChange, onWritten: () => void = () => {}): void {
    if (this.isClosed) return; // The same change is made again after the next start.
    const key = getKey(change);
    this.deferred.delete(key);
    this.deferred.set(key, { change, onWritten });
    if (this.deferred.size >= MAX_BATCH_SIZE && !this.isFailing) this.immediate ??= setImmediate(this.onImmediate);
    else this.scheduleWrite(this.isFailing ? this.retryMs : (this.options.waitMs ?? DEFAULT_WAIT_MS));
  }

  /**
   * Writes all pending and deferred changes immediately, so that the store can be read consistently. Failures are
   * reported as usual; deferred changes that the store rejects stay deferred.
   */
  flush(): void {
    while (this.pending.length > 0) this.writeBatch();
    let deferredBefore = Infinity;
    while (this.deferred.size > 0 && this.deferred.size < deferredBefore) {
      deferredBefore = this.deferred.size;
      this.writeBatch();
    }
  }

  /** Writes all pending and deferred changes, as `flush` does, and accepts no more. The store stays open. */
  close(): void {
    this.flush();
    this.isClosed = true;
    clearImmediate(this.immediate);
    clearTimeout(this.timer);
  }

  /** Writes a batch of changes, unless more are arriving that can share its transaction. Repeats while any are pending. */
  private readonly onImmediate = (): void => {
    this.immediate = undefined;
    if (!this.coalescer.shouldWait(this.pending.length)) this.writeBatch();
    if (this.pending.length > 0) this.immediate ??= setImmediate(this.onImmediate);
  };

  private readonly onTimer = (): void => {
    this.timer = undefined;
    this.writeBatch();
  };

  /**
   * Writes one batch of pending changes together with deferred ones, and settles them. Schedules the next attempt if
   * deferred changes are left.
   */
  private writeBatch(): void {
    const batch = this.takeBatch();
    const deferred = this.listFirstDeferred();
    if (batch.length === 0 && deferred.length === 0) return;
    const startedAt = performance.now();
    const error = this.tryApply([...deferred.map(([, { change }]) => change), ...batch.map(({ change }) => change)]);
    this.coalescer.recordWriteTime(performance.now() - startedAt);
    if (error === undefined) this.handleSuccess(batch, deferred);
    else this.handleFailure(batch, deferred, error);
    if (this.deferred.size === 0) return;
    if (error === undefined) this.immediate ??= setImmediate(this.onImmediate);
    else this.scheduleWrite(this.retryMs);
  }

  /** Removes the first pending changes from the queue, as many as fit into one transaction. */
  private takeBatch(): PendingChange[] {
    let bytes = 0;
    let count = 0;
    for (const { bytes: size } of this.pending) {
      if (count === MAX_BATCH_SIZE || (count > 0 && bytes + size > MAX_BATCH_BYTES)) break;
      count += 1;
      bytes += size;
    }
    const batch = this.pending.slice(0, count);
    this.pending = count === this.pending.length ? [] : this.pending.slice(count);
    return batch;
  }

  /**
   * Lists the first deferred changes, at most one batch, because copying all of them for each batch would be slow. They
   * stay deferred until they are written.
   */
  private listFirstDeferred(): DeferredEntry[] {
    const first: DeferredEntry[] = [];
    for (const entry of this.deferred) {
      if (first.length === MAX_BATCH_SIZE) break;
      first.push(entry);
    }
    return first;
  }

  /** Applies changes in one transaction; returns the error, or undefined if they were written. */
  private tryApply(changes: readonly StoreChange[]): GatewayError | undefined {
    try {
      this.options.store.apply(changes);
      return undefined;
    } catch (error) {
      return error instanceof GatewayError
        ? error
        : new GatewayError(
            'store_failed',
            `the store cannot be written: ${error instanceof Error ? error.message : String(error)}`,
            { cause: error },
          );
    }
  }

  /** Resolves the written changes, and reports that the store has recovered. */
  private handleSuccess(batch: readonly PendingChange[], deferred: readonly DeferredEntry[]): void {
    this.removeWritten(deferred);
    this.settleChanges(batch);
    if (!this.isFailing) return;
    // Changes that free space may succeed while uplinks fail. That alone is not a recovery; otherwise failure and
    // recovery would be reported again and again.
    const hasRecovered =
      !this.rejectsUplinks ||
      batch.some(({ change }) => change.kind === 'uplink') ||
      performance.now() - this.failedAt > QUIET_RETRIES * this.retryMs;
    if (!hasRecovered) return;
    this.isFailing = false;
    this.isCorrupt = false;
    this.options.onRecovered();
  }

  /**
   * Handles a failed batch. Uplinks may not fit on the disk while commands (which are small) and removals (which free
   * space) still do, so these are retried without the uplinks. Changes that are not written are rejected; deferred ones
   * stay for the next attempt.
   */
  private handleFailure(
    batch: readonly PendingChange[],
    deferred: readonly DeferredEntry[],
    error: GatewayError,
  ): void {
    const otherChanges = batch.filter(({ change }) => change.kind !== 'uplink');
    const uplinks = batch.filter(({ change }) => change.kind === 'uplink');
    const hasOtherChanges = uplinks.length > 0 && otherChanges.length + deferred.length > 0;
    const otherChangesError = hasOtherChanges
      ? this.tryApply([...deferred.map(([, { change }]) => change), ...otherChanges.map(({ change }) => change)])
      : error;
    const areOtherChangesWritten = otherChangesError === undefined;
    if (areOtherChangesWritten) this.removeWritten(deferred);
    this.failedAt = performance.now();
    this.rejectsUplinks = uplinks.length > 0;
    this.settleChanges(areOtherChangesWritten ? otherChanges : [], areOtherChangesWritten ? uplinks : batch, error);
    this.reportFailing(otherChangesError?.reason === 'store_corrupt' ? otherChangesError : error);
  }

  /** Reports a failure once. Corruption is always reported, because unlike a full disk it does not resolve itself. */
  private reportFailing(error: GatewayError): void {
    const isCorrupt = error.reason === 'store_corrupt';
    const isNew = !this.isFailing || (isCorrupt && !this.isCorrupt);
    if (!isNew) return;
    this.isFailing = true;
    this.isCorrupt = isCorrupt;
    this.options.onFailing(error);
  }

  /** Removes written changes from the deferred ones, unless a later change has replaced them, and calls `onWritten`. */
  private removeWritten(written: readonly DeferredEntry[]): void {
    for (const [key, entry] of written) {
      if (this.deferred.get(key) === entry) this.deferred.delete(key);
      entry.onWritten();
    }
  }

  /** Resolves the callers of `written` changes and rejects the callers of `rejected` changes with `error`. */
  private settleChanges(
    written: readonly PendingChange[],
    rejected: readonly PendingChange[] = [],
    error?: GatewayError,
  ): void {
    for (const { change } of [...written, ...rejected]) this.countPending(change, -1);
    for (const { resolve } of written) resolve();
    for (const { reject } of rejected) reject(error as GatewayError);
  }

  /** Counts the pending uplinks and their bytes: adds the change if it is an uplink (1), or subtracts it (-1). */
  private countPending(change: StoreChange, sign: 1 | -1): void {
    if (change.kind !== 'uplink') return;
    this.pendingUplinkCount += sign;
    this.pendingUplinkBytes += sign * getMessageSize(change);
  }

  private get retryMs(): number {
    return this.options.retryMs ?? DEFAULT_RETRY_MS;
  }

  private scheduleWrite(ms: number): void {
    this.timer ??= setTimeout(this.onTimer, ms).unref();
  }
}

/** Returns the key of a change. A later change with the same key replaces an earlier one. */
function getKey(change: StoreChange): string {
  if (change.kind === 'command') return `command ${change.command.executionId}`;
  if (change.kind === 'uplink') return `uplink ${change.uplink.uplinkId}`;
  return change.kind === 'command_acknowledged'
    ? `${change.kind} ${change.executionId}`
    : `${change.kind} ${change.uplinkId}`;
}
