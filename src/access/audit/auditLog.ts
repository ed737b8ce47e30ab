import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import { newId } from '../../kernel/ids';
import type { Logger } from '../../kernel/logger';
import type { KeyIdentity } from '../../kernel/principal';
import { DAY_MS, HOUR_MS } from '../../kernel/timeUnits';
import { AttemptLimiter } from './attemptLimiter';
import {
  INSTALLATION_CHAIN,
  sanitizeForStorage,
  type AuditDetails,
  type AuditOutcome,
  type AuditSubject,
} from './auditEvent';
import { AuditRepository } from './auditRepository';
import { AuditRetention } from './auditRetention';
import { PendingChangeLog } from './pendingChangeLog';
import { filterResource } from './organizationEvents';
import { openChains } from './openChains';
import { AuditChainWriter } from './auditChainWriter';
import { createServerEvent } from './serverEvents';

/** A call as the audit trail records it: who called which method, from where, and on which resource. */
interface CallDetails {
  readonly method: string;
  readonly requestId: string;
  readonly peer: string;
  /** Undefined if no key was recognised. */
  readonly key: KeyIdentity | undefined;
  /** The prefix of a well-formed key that was not recognised; otherwise empty. */
  readonly keyPrefix: string;
  readonly resource: string;
  readonly fields: readonly string[];
  /** The call changes the installation, so the event belongs to no organization's chain. */
  readonly isInstallationWide?: boolean;
}

/** How a call ended. */
interface CallEnd {
  readonly outcome: AuditOutcome;
  readonly reason: string;
  readonly resource: string;
}

/** A change that has started. */
interface BegunChange {
  readonly id: string;
  readonly subject: AuditSubject;
}

const MAINTENANCE_INTERVAL_MS = 1000;
/** A command of the command line that started more than this many milliseconds ago is considered killed. */
const MAX_COMMAND_MS = 10 * 60_000;
const RECOVERY_BATCH_SIZE = 500;

/**
 * The audit trail of a running server. A change is stored as pending before it starts, and its event with the outcome
 * is appended to a chain when it ends. A chain is the trail of one organization or of the installation; its head is the
 * last event.
 */
export class AuditLog {
  private readonly processId = `server:${newId()}`;
  private readonly writer: AuditChainWriter;
  private readonly pendingChangeLog: PendingChangeLog;
  private readonly attemptLimiter: AttemptLimiter;
  private timer: NodeJS.Timeout | undefined;
  private readonly retention: AuditRetention;
  private readonly stopping = new AbortController();
  /**
   * When the heads of the chains were last written to the log or, before that, the server started; Unix milliseconds.
   */
  private headsLoggedAt: number;
  /** When the hourly maintenance last started, Unix milliseconds. */
  private maintainedAt: number;
  private maintenance: Promise<void> | undefined;

  constructor(
    private readonly deps: {
      readonly database: Database;
      readonly clock: Clock;
      readonly log: Logger;
      readonly retentionDays: number;
      /** The clock that decides which events are too old; default: `clock`. */
      readonly retentionClock?: Clock;
    },
  ) {
    this.writer = new AuditChainWriter(deps.database, deps.log);
    this.pendingChangeLog = new PendingChangeLog(deps.database, (ids) => this.writer.deletePendingChanges(ids));
    this.attemptLimiter = new AttemptLimiter((event) => this.writer.addEvent({ ...event, id: newId() }));
    this.retention = new AuditRetention({ ...deps, clock: deps.retentionClock ?? deps.clock });
    this.headsLoggedAt = deps.clock.now();
    this.maintainedAt = deps.clock.now();
  }

  /** Records the outcome `unknown` for changes of processes that have ended, and starts the periodic tasks. */
  async start(): Promise<void> {
    await openChains(this.deps.database, this.deps.clock);
    await this.recordAbandonedChanges();
    this.timer = setInterval(() => this.runPeriodicTasks(), MAINTENANCE_INTERVAL_MS).unref();
  }

  /**
   * Records that a change is about to start. Resolves when it is certain that no later write can be stored without it.
   * Rejects if it cannot be stored: then nothing may be changed.
   */
  async begin(call: CallDetails): Promise<BegunChange> {
    const subject = this.createSubject(call);
    await this.pendingChangeLog.write({ subject, processId: this.processId });
    return { id: subject.id, subject };
  }

  /**
   * Records the outcome of a change. It is appended to the chain soon afterwards. A change that was refused or failed
   * and created nothing is an attempt: many equal attempts become one event.
   */
  end(change: { readonly id: string }, end: CallEnd): void {
    const { subject } = change as BegunChange; // the type of the parameter hides it from other modules
    const event = createCallEvent(subject, end);
    const hasFailed = event.outcome === 'refused' || event.outcome === 'failed';
    // If the resource differs from that of the request, the response names it, so it was created.
    const isAttempt = hasFailed && event.resource === subject.resource;
    const getsOwnEvent = !isAttempt || this.attemptLimiter.countAttempt(event, this.deps.clock.monotonic());
    if (getsOwnEvent) this.writer.addOutcome(event);
    else this.writer.deletePendingChanges([subject.id]); // the event that counts equal attempts covers it
  }

  /**
   * Records a call that was refused before it started, or a stream that was opened; the event is appended soon after.
   * Many equal calls become one event with a count.
   */
  recordAttempt(call: CallDetails, end: CallEnd): void {
    const event = createCallEvent(this.createSubject(call), end);
    if (this.attemptLimiter.countAttempt(event, this.deps.clock.monotonic())) this.writer.addEvent(event);
  }

  /** Records a change by the server itself. */
  recordServerEvent(chain: string, method: string, resource: string): void {
    this.writer.addEvent(createServerEvent(this.deps.clock.now(), chain, method, resource));
  }

  /** Records a change by the server in a transaction: the chain contains it if and only if the transaction commits. */
  async recordServerEventIn(db: Db, chain: string, method: string, resource: string): Promise<void> {
    const repository = new AuditRepository(db);
    const ends = await repository.appendEvents(chain, await repository.lockChain(chain), [
      createServerEvent(this.deps.clock.now(), chain, method, resource),
    ]);
    db.afterCommit(() => this.writer.recordNewEnds(chain, ends));
  }

  /**
   * Returns the numbers of events since the server started: appended, waiting, and lost because too many were waiting.
   */
  getStats(): { readonly appended: number; readonly waiting: number; readonly lost: number } {
    return this.writer.getStats();
  }

  /** Resolves when all recorded outcomes are appended. Rejects with the error of the database. */
  async flush(): Promise<void> {
    await this.writer.flush();
  }

  /** Records the outcome `unknown` for changes whose process has ended. Called at the start and every hour. */
  async recordAbandonedChanges(): Promise<void> {
    const { database, clock, log } = this.deps;
    const repository = new AuditRepository(database.db);
    let foundCount = 0;
    for (;;) {
      const abandoned = await repository.findAbandoned(
        this.processId,
        clock.now() - MAX_COMMAND_MS,
        RECOVERY_BATCH_SIZE,
      );
      for (const subject of abandoned) this.writer.addOutcome({ ...subject, outcome: 'unknown', reason: '', count: 1 });
      await this.writer.flush();
      foundCount += abandoned.length;
      if (abandoned.length < RECOVERY_BATCH_SIZE) {
        if (foundCount > 0) log.warn({ events: foundCount }, 'audit.outcome_unknown');
        return;
      }
    }
  }

  /** Records abandoned changes and deletes events that exceed the retention time. Called every hour. */
  async runMaintenance(): Promise<void> {
    this.maintainedAt = this.deps.clock.now();
    try {
      await this.recordAbandonedChanges();
      await this.retention.run(this.stopping.signal);
    } catch (err) {
      this.deps.log.warn({ err }, 'audit.maintenance_failed'); // tried again after an hour
    }
  }

  /** Appends the waiting events, and logs the heads of the chains that have grown. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    this.stopping.abort();
    await this.maintenance;
    this.attemptLimiter.finish();
    await this.writer.close();
    this.logHeads();
  }

  /**
   * Runs every second: reports repeated attempts, once a day logs the heads of the chains, and starts the hourly
   * maintenance unless it is still running.
   */
  private runPeriodicTasks(): void {
    this.attemptLimiter.reportEndedWindows(this.deps.clock.monotonic());
    if (this.deps.clock.now() - this.headsLoggedAt >= DAY_MS) this.logHeads();
    if (this.deps.clock.now() - this.maintainedAt >= HOUR_MS)
      this.maintenance ??= this.runMaintenance().finally(() => (this.maintenance = undefined));
  }

  /** Logs the head of each chain that has grown, so that the replacement of a whole chain can be detected. */
  private logHeads(): void {
    this.headsLoggedAt = this.deps.clock.now();
    for (const [chain, { lastSeq, lastHash }] of this.writer.takeNewEnds())
      this.deps.log.info({ organization_id: chain, head: `${lastSeq}:${lastHash}` }, 'audit.checkpoint');
  }

  /** Returns who does what in a call, with a new event id and texts that every database can store. */
  private createSubject({
    method,
    requestId,
    peer,
    key,
    keyPrefix,
    resource,
    fields,
    isInstallationWide,
  }: CallDetails): AuditSubject {
    const chain = isInstallationWide ? INSTALLATION_CHAIN : (key?.organizationId ?? INSTALLATION_CHAIN);
    return {
      id: newId(),
      chain,
      at: this.deps.clock.now(),
      actor: 'key',
      keyId: key?.keyId,
      keyPrefix: key?.keyPrefix ?? keyPrefix,
      userId: key?.ownerUserId,
      peer: sanitizeForStorage(peer),
      method: sanitizeForStorage(method),
      resource: filterResource(chain, resource),
      fields,
      requestId: sanitizeForStorage(requestId),
    };
  }
}

/** Creates the event of a call that has ended. */
function createCallEvent(subject: AuditSubject, { outcome, reason, resource }: CallEnd): AuditDetails {
  return { ...subject, resource: filterResource(subject.chain, resource), outcome, reason, count: 1 };
}
