import type { Database, Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { AuditRepository } from './auditRepository';
import { INSTALLATION_CHAIN, truncateEvent, type AuditDetails, type ChainEnds } from './auditEvent';
import { runSequentially } from './runSequentially';
import { withOrganizationCopy } from './organizationEvents';
import { createServerEvent } from './serverEvents';

/** How long an event waits so that others can share its transaction. */
const FLUSH_DELAY_MS = 50;
/** The retry interval after a failure. */
const RETRY_INTERVAL_MS = 1000;
/** After this many rejected transactions in a row, the events are written one at a time. */
const MAX_REJECTIONS = 3;
/** The maximum number of events per transaction. */
const BATCH_SIZE = 96;
/** The maximum number of waiting events without a pending change, mostly attempts; further ones are only counted. */
const MAX_WAITING_ATTEMPTS = 10_000;
/**
 * The maximum number of waiting outcomes of pending changes. The next start of the server records further ones as
 * `unknown`.
 */
const MAX_WAITING_OUTCOMES = 100_000;

/**
 * An event that waits to be appended to its chain, which is the audit trail of one organization or of the installation.
 * A change is stored as pending before it starts; its event contains the outcome.
 */
interface WaitingEvent {
  readonly event: AuditDetails;
  /** A pending change with its id is stored, and is deleted together with the append. */
  readonly hasPendingChange: boolean;
  /** The reduced form that the database accepts; undefined: the whole event. */
  readonly truncated?: AuditDetails;
}

/** The `method` of the server event that tests whether the database is writable. */
const PROBE_METHOD = 'audit set aside';

/**
 * Appends events to their chains in the order in which they arrive, many per transaction. Keeps them in memory while
 * the database is unavailable.
 */
export class AuditChainWriter {
  private waitingEvents: WaitingEvent[] = [];
  /**
   * The ids of stored pending changes to delete, although no event is appended for them (see `deletePendingChanges`).
   */
  private eventlessChangeIds: string[] = [];
  /** The number of waiting events without a pending change. */
  private waitingAttemptCount = 0;
  private addedCount = 0;
  private appendedCount = 0;
  /** The number of lost events since the last log message. */
  private lostSinceLog = 0;
  /** The number of lost events since the server started. */
  private totalLost = 0;
  /** Settles when the batch that is being written is written; undefined: none is being written. */
  private currentWrite: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** The number of transactions that the database rejected in a row. */
  private consecutiveRejections = 0;
  /** The previous transaction failed, but its changes may be stored, so events must be searched before a retry. */
  private mayBeStored = false;
  /** The last transaction failed. This is logged only once, until one succeeds. */
  private isFailing = false;
  private isClosed = false;
  /** The ends of the chains that have grown since the last call of `takeNewEnds`, by chain name. */
  private readonly newEndsByChain = new Map<string, ChainEnds>();

  constructor(
    private readonly database: Database,
    private readonly log: Logger,
  ) {}

  /**
   * Adds the outcome of a change that is stored as pending with the same id. It is appended soon, or only counted as
   * lost if too many outcomes wait.
   */
  addOutcome(event: AuditDetails): void {
    this.add({ event, hasPendingChange: true });
  }

  /**
   * Adds an event without a pending change: a rejected attempt, or a change by the server. It is appended soon, or only
   * counted as lost if too many wait.
   */
  addEvent(event: AuditDetails): void {
    this.add({ event, hasPendingChange: false });
  }

  /**
   * Schedules the deletion of stored pending changes for which no event is appended: they did not start, or one event
   * counts many of them. `ids`: of the changes.
   */
  deletePendingChanges(ids: readonly string[]): void {
    this.eventlessChangeIds.push(...ids);
    this.scheduleFlush(FLUSH_DELAY_MS);
  }

  /**
   * Returns the number of events that were appended, that are waiting, and that were lost because too many were
   * waiting.
   */
  getStats(): { readonly appended: number; readonly waiting: number; readonly lost: number } {
    return { appended: this.appendedCount, waiting: this.waitingEvents.length, lost: this.totalLost };
  }

  /**
   * Resolves when all events that were added before the call are appended. Rejects with the error of the database; the
   * events then stay in memory, and the timer tries again.
   */
  async flush(): Promise<void> {
    const targetCount = this.addedCount;
    while (this.appendedCount < targetCount) await this.writeNext();
  }

  /** Records the new end of a chain to which a caller appended an event in its own transaction. */
  recordNewEnds(chain: string, ends: ChainEnds): void {
    this.newEndsByChain.set(chain, ends);
  }

  /** Returns the ends of the chains that have grown since the last call, by chain name, and clears the list. */
  takeNewEnds(): ReadonlyMap<string, ChainEnds> {
    const endsByChain = new Map(this.newEndsByChain);
    this.newEndsByChain.clear();
    return endsByChain;
  }

  /** Appends the waiting events, without a retry. The log reports events that are lost. */
  async close(): Promise<void> {
    this.isClosed = true;
    clearTimeout(this.timer);
    try {
      await this.flush();
      if (this.eventlessChangeIds.length > 0) await this.writeNext();
    } catch (err) {
      this.log.error({ err, events: this.waitingEvents.length }, 'audit.not_sealed');
    }
  }

  /** Adds an event to the queue, or counts it as lost if too many events of its kind wait. */
  private add({ event, hasPendingChange }: WaitingEvent): void {
    const isFull = hasPendingChange
      ? this.waitingEvents.length - this.waitingAttemptCount >= MAX_WAITING_OUTCOMES
      : this.waitingAttemptCount >= MAX_WAITING_ATTEMPTS;
    if (isFull) {
      this.lostSinceLog += 1;
      this.totalLost += 1;
      return;
    }
    this.waitingEvents.push({ event, hasPendingChange });
    this.addedCount += 1;
    if (!hasPendingChange) this.waitingAttemptCount += 1;
    this.scheduleFlush(FLUSH_DELAY_MS);
  }

  /**
   * Starts the timer for the next transaction, unless the timer or a transaction is running or the writer is closed.
   */
  private scheduleFlush(afterMs: number): void {
    if (this.timer || this.currentWrite || this.isClosed) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.flushAll();
    }, afterMs).unref();
  }

  /**
   * Appends the waiting events, and deletes the pending changes without an event, in batches until none are left. After
   * an error, schedules a retry.
   */
  private async flushAll(): Promise<void> {
    try {
      while (this.waitingEvents.length > 0 || this.eventlessChangeIds.length > 0) await this.writeNext();
    } catch {
      this.scheduleFlush(RETRY_INTERVAL_MS); // the error is already in the log
    }
  }

  /** Writes the next batch, or joins the batch that is being written, so that only one transaction runs at a time. */
  private writeNext(): Promise<void> {
    this.currentWrite ??= this.writeBatch().finally(() => (this.currentWrite = undefined));
    return this.currentWrite;
  }

  /** Appends the next batch in one transaction. If that fails, the events keep waiting and the error is thrown. */
  private async writeBatch(): Promise<void> {
    if (this.consecutiveRejections >= MAX_REJECTIONS) return await this.writeIndividually();
    const batch = this.waitingEvents.slice(0, BATCH_SIZE);
    const eventlessChangeIds = this.eventlessChangeIds.slice(0, BATCH_SIZE);
    try {
      const endsByChain = await this.database.transaction(
        async (db) => await this.write(db, batch, eventlessChangeIds),
      );
      for (const [chain, ends] of endsByChain) this.newEndsByChain.set(chain, ends);
    } catch (error) {
      if (!isUnavailable(error)) this.consecutiveRejections += 1;
      throw this.handleFailure(error);
    }
    this.eventlessChangeIds = this.eventlessChangeIds.slice(eventlessChangeIds.length);
    this.waitingEvents = this.waitingEvents.slice(batch.length);
    this.countWritten(batch);
    this.handleSuccess();
  }

  /**
   * Writes the events of the next batch one at a time, after the database has rejected several transactions in a row.
   * An event that is rejected is written in a reduced form. If the reduced form is rejected too, the event is dropped,
   * provided that the database accepts another event; otherwise the cause is not the event, and all events keep
   * waiting.
   */
  private async writeIndividually(): Promise<void> {
    const batch = this.waitingEvents.slice(0, BATCH_SIZE);
    const { succeeded, rejected, unavailable } = await runSequentially(
      batch,
      async (item) => await this.writeOneOrTruncated(item),
      isUnavailable,
    );
    this.waitingEvents = this.waitingEvents.slice(batch.length);
    this.countWritten([...succeeded]);
    this.waitingEvents = [
      ...batch.filter((item) => !succeeded.has(item) && !rejected.has(item)),
      ...this.waitingEvents,
    ];
    // The rejected event itself causes the error if the database accepts other events.
    const isEventError =
      unavailable === undefined && (succeeded.size > 0 || rejected.size === 0 || (await this.isDatabaseWritable()));
    if (isEventError) {
      for (const [item, error] of rejected) this.dropEvent(item, error);
      this.handleSuccess();
      return;
    }
    this.waitingEvents.push(...rejected.keys()); // the events after them are tried next
    throw this.handleFailure(unavailable ?? rejected.values().next().value);
  }

  /**
   * Appends an event, or its reduced form if the database rejects the whole event. Returns undefined if one of them was
   * stored, otherwise the last error.
   */
  private async writeOneOrTruncated(item: WaitingEvent): Promise<unknown> {
    const error = await this.writeOne(item);
    if (error === undefined || isUnavailable(error)) return error;
    const truncatedError = await this.writeOne({ ...item, truncated: truncateEvent(item.event) });
    if (truncatedError === undefined)
      this.log.error(
        { err: error, event_id: item.event.id, method: item.event.method, request_id: item.event.requestId },
        'audit.event_truncated',
      );
    return truncatedError;
  }

  /** Appends one event in its own transaction. Returns the error, undefined on success. */
  private async writeOne(item: WaitingEvent): Promise<unknown> {
    try {
      const endsByChain = await this.database.transaction(async (db) => await this.write(db, [item], []));
      for (const [chain, ends] of endsByChain) this.newEndsByChain.set(chain, ends);
      return undefined;
    } catch (error) {
      return error ?? new Error('the database rejected an audit event'); // undefined would mean success
    }
  }

  /**
   * Tests whether the database accepts a harmless server event in the chain of the installation. If it does, a rejected
   * event is itself the cause of the error. The test event has the time of a waiting event.
   */
  private async isDatabaseWritable(): Promise<boolean> {
    return (
      (await this.writeOne({
        event: createServerEvent(this.waitingEvents[0]?.event.at ?? 0, INSTALLATION_CHAIN, PROBE_METHOD, ''),
        hasPendingChange: false,
      })) === undefined
    );
  }

  /**
   * Drops an event and writes it to the log. If its pending change is stored, it stays there, and the next start of the
   * server records it with the outcome `unknown`.
   */
  private dropEvent(item: WaitingEvent, err: unknown): void {
    this.countWritten([item]);
    this.log.error({ err, event: item.event }, 'audit.event_not_sealed');
  }

  /** Updates the counters after events have been appended or dropped. */
  private countWritten(batch: readonly WaitingEvent[]): void {
    this.waitingAttemptCount -= batch.filter(({ hasPendingChange }) => !hasPendingChange).length;
    this.appendedCount += batch.length;
  }

  /**
   * Logs the first of several consecutive failures, schedules a retry, and returns the error, which the caller throws.
   * The commit may have succeeded although the database reported an error, so the retry looks for stored events first.
   */
  private handleFailure(error: unknown): unknown {
    this.mayBeStored = true;
    if (!this.isFailing) this.log.error({ err: error }, 'audit.sealing_failed');
    this.isFailing = true;
    if (!this.isClosed) this.scheduleRetry();
    return error;
  }

  /**
   * Schedules a retry after the current batch has settled: until then `scheduleFlush` does nothing, because a batch is
   * running. A caller of `flush` does not retry itself.
   */
  private scheduleRetry(): void {
    setImmediate(() => this.scheduleFlush(RETRY_INTERVAL_MS));
  }

  /** Resets the failure state, and logs that appending works again or that events were lost. */
  private handleSuccess(): void {
    this.mayBeStored = false;
    this.consecutiveRejections = 0;
    if (this.isFailing) this.log.info({ lost: this.lostSinceLog }, 'audit.seal_retry');
    else if (this.lostSinceLog > 0) this.log.error({ lost: this.lostSinceLog }, 'audit.events_lost');
    this.isFailing = false;
    this.lostSinceLog = 0;
  }

  /**
   * Appends a batch in a transaction, and deletes the pending changes of its events and those of `eventlessChangeIds`.
   * Returns the new ends of the chains, by chain name. Events that are already stored are not appended again.
   */
  private async write(
    db: Db,
    batch: readonly WaitingEvent[],
    eventlessChangeIds: readonly string[],
  ): Promise<Map<string, ChainEnds>> {
    const repository = new AuditRepository(db);
    const deletedChangeIds = await repository.deletePendingChanges([
      ...batch.filter((item) => item.hasPendingChange).map(({ event }) => event.id),
      ...eventlessChangeIds,
    ]);
    // If the pending change of an outcome is missing, the outcome may already be stored: then only the stored outcome
    // counts. If no chain contains the outcome either, somebody deleted the pending change, which the log reports.
    const possiblyStoredIds = batch
      .filter((item) => (item.hasPendingChange ? !deletedChangeIds.has(item.event.id) : this.mayBeStored))
      .map(({ event }) => event.id);
    const storedIds =
      possiblyStoredIds.length > 0 ? await repository.findExistingIds(possiblyStoredIds) : new Set<string>();
    const newEvents: WaitingEvent[] = [];
    for (const item of batch) {
      if (storedIds.has(item.event.id)) continue;
      storedIds.add(item.event.id); // also excludes a second event of the batch with the same id
      newEvents.push(item);
    }
    for (const { hasPendingChange, event } of newEvents)
      if (hasPendingChange && !deletedChangeIds.has(event.id))
        this.log.error(
          { event_id: event.id, method: event.method, request_id: event.requestId },
          'audit.chain_truncated',
        );
    const eventsByChain = Map.groupBy(
      newEvents.flatMap(({ event, truncated }) => withOrganizationCopy(truncated ?? event)),
      ({ chain }) => chain,
    );
    const endsByChain = new Map<string, ChainEnds>();
    // Always in the same order, so that two concurrent writers do not deadlock.
    for (const chain of [...eventsByChain.keys()].toSorted()) {
      endsByChain.set(
        chain,
        await repository.appendEvents(chain, await repository.lockChain(chain), eventsByChain.get(chain) ?? []),
      );
    }
    return endsByChain;
  }
}

/** Whether the error is not caused by the stored data: the database is unavailable, busy or full. */
function isUnavailable(error: unknown): boolean {
  return error instanceof DomainError;
}
