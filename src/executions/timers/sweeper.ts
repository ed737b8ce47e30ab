import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { Alarm } from './alarm';
import { DeadlineRepository, type DueExecution } from '../store/deadlineRepository';
import type { Execution } from '../execution';
import type { ExecutionEvent, Timer } from '../machine/executionEvent';
import { dueTimer } from '../machine/executionTimes';
import type { Ledger } from '../ledger/ledger';
import { PORTION } from '../store/openStatements';

/** So many are looked up at once; they are read and judged in portions. */
const PAGE = 1000;
/** How long brokers and gateways have after a start to bring what they hold, before what fell due meanwhile is judged. */
const GRACE_MS = 60_000;
/** Deadlines of another process are seen that often. */
const LOOK_EVERY_MS = 5000;

const NOT_SENT: ExecutionEvent = { kind: 'known_undelivered' };

interface SweeperOptions {
  readonly database: Database;
  readonly ledger: Ledger;
  /** Takes a command in transit back that has not left yet; true: it provably never will. */
  readonly takeBack: (execution: Execution) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Ends what its deadline ends: one index over all deadlines, absolute times, so that a restart loses none. */
export class Sweeper {
  private readonly alarm: Alarm;
  private startedAt = 0;
  private running: Promise<void> | undefined;
  private stopped = true;

  constructor(private readonly options: SweeperOptions) {
    this.alarm = new Alarm(options.clock, () => this.run());
  }

  /** From now on deadlines are kept. */
  start(): void {
    this.stopped = false;
    this.startedAt = this.options.clock.now();
    this.alarm.set(this.startedAt);
  }

  /** Resolves when nothing is being swept any more. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.alarm.clear();
    await this.running;
  }

  /** A deadline was set; undefined: none. Unix milliseconds. */
  expect(deadline: number | undefined): void {
    if (deadline !== undefined && !this.stopped) this.alarm.set(deadline);
  }

  /**
   * Judges everything that is due now; resolves, when it is on disk, to the time (Unix milliseconds) up to which that is so. What cannot be
   * judged is named in the log and left for the next time: it holds up nothing else.
   */
  async sweep(): Promise<number> {
    const givenUp = new Set<string>();
    for (;;) {
      const now = this.options.clock.now();
      if ((await this.pass(now, givenUp)) === 0) return now; // what became of those that were judged may be due too
    }
  }

  /** Looks once at everything that is due; returns how many were judged. `givenUp`: the ids of organizations and executions that are left alone. */
  private async pass(now: number, givenUp: Set<string>): Promise<number> {
    // What fell due while the server was down waits; what never left the server does not.
    const spared = now < this.startedAt + GRACE_MS ? this.startedAt : -1;
    const deadlines = new DeadlineRepository(this.options.database.db);
    let judged = 0;
    for (let left = 0; ; ) {
      const due = await deadlines.due(now, spared, PAGE, left); // what is left is due as before, so it comes first
      if (due.length === 0) return judged;
      let done = 0;
      for (const [organizationId, executions] of Map.groupBy(due, (execution) => execution.organizationId)) done += await this.judgeOf(organizationId, executions, now, givenUp);
      judged += done;
      left += due.length - done;
    }
  }

  private async judgeOf(organizationId: string, due: readonly DueExecution[], now: number, givenUp: Set<string>): Promise<number> {
    let judged = 0;
    for (let start = 0; start < due.length && !givenUp.has(organizationId); start += PORTION) {
      const ids = due.slice(start, start + PORTION).map(({ id }) => id).filter((id) => !givenUp.has(id));
      if (ids.length > 0) judged += await this.judgePortion(organizationId, ids, now, givenUp);
      await othersTurn();
    }
    return judged;
  }

  private async judgePortion(organizationId: string, ids: readonly string[], now: number, givenUp: Set<string>): Promise<number> {
    try {
      return await this.judge(organizationId, ids, now);
    } catch (error) {
      // What is wrong with the database passes, and concerns the whole organization; anything else may be wrong with one of them.
      const passes = error instanceof DomainError;
      if (passes || ids.length === 1) {
        givenUp.add(passes ? organizationId : (ids[0] ?? ''));
        this.options.log[passes ? 'warn' : 'error']({ organization_id: organizationId, execution_ids: ids, error }, 'executions.deadline_failed');
        return 0;
      }
      let judged = 0;
      for (const id of ids) judged += await this.judgePortion(organizationId, [id], now, givenUp);
      if (judged === 0) givenUp.add(organizationId);
      return judged;
    }
  }

  /** Also counts those that were changed meanwhile. */
  private async judge(organizationId: string, ids: readonly string[], now: number): Promise<number> {
    const { database, ledger } = this.options;
    const executions = await new DeadlineRepository(database.db).toJudge(organizationId, ids);
    const changes = executions.flatMap((execution) => {
      const timer = dueTimer(execution, now);
      return (timer && ledger.planAll(execution, this.eventsAt(execution, timer), { source: 'sweeper' })) ?? [];
    });
    if (changes.length > 0) await database.transaction(async (db) => await ledger.store(db, organizationId, changes));
    return changes.length;
  }

  /** What waited all the time for the other side to read has not been delivered: that comes first. */
  private eventsAt(execution: Execution, timer: Timer): ExecutionEvent[] {
    const ended: ExecutionEvent = { kind: 'timer', timer };
    return timer === 'delivery' && this.options.takeBack(execution) ? [NOT_SENT, ended] : [ended];
  }

  private run(): void {
    if (this.stopped || this.running) return;
    this.running = this.round().finally(() => {
      this.running = undefined;
      this.expect(this.options.clock.now() + LOOK_EVERY_MS);
    });
  }

  private async round(): Promise<void> {
    try {
      const judgedUpTo = await this.sweep();
      this.expect(await new DeadlineRepository(this.options.database.db).nextAfter(judgedUpTo));
    } catch (error) {
      this.options.log.warn({ error }, 'executions.sweep_failed'); // the next look tries again
    }
  }
}
