import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import { Alarm } from './alarm';
import { DeadlineRepository } from './deadlineRepository';
import type { Execution } from './execution';
import type { ExecutionEvent, Timer } from './executionEvent';
import { dueTimer } from './executionTimes';
import type { Ledger } from './ledger';

const CHUNK = 100;
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

  /** Judges everything that is due now; resolves, when it is on disk, to the time (Unix milliseconds) up to which that is so. */
  async sweep(): Promise<number> {
    for (;;) {
      const now = this.options.clock.now();
      // What fell due while the server was down waits; what never left the server does not.
      const spared = now < this.startedAt + GRACE_MS ? this.startedAt : -1;
      const due = await new DeadlineRepository(this.options.database.db).due(now, spared, CHUNK);
      const judged = due.length === 0 ? 0 : await this.judge(due, now);
      if (judged === 0) return now;
    }
  }

  private async judge(due: readonly Execution[], now: number): Promise<number> {
    const { database, ledger } = this.options;
    let judged = 0;
    for (const [organizationId, executions] of Map.groupBy(due, (execution) => execution.organizationId)) {
      const changes = executions.flatMap((execution) => {
        const timer = dueTimer(execution, now);
        return (timer && ledger.planAll(execution, this.eventsAt(execution, timer), { source: 'sweeper' })) ?? [];
      });
      await database.transaction(async (db) => await ledger.store(db, organizationId, changes));
      judged += changes.length; // also those that were changed meanwhile: what became of them may be due too
    }
    return judged;
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
