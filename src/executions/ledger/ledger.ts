import type { Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import { type Change, type EventOrigin, planChange, planLate, planSubmission } from './changePlan';
import { consequencesOf } from './consequences';
import type { Execution } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ExecutionRepository } from '../store/executionRepository';

export type { Change, EventOrigin } from './changePlan';

/** Brings what happened into the database: state, version and event log together with all that follows from it, and tells of it once it is on disk. */
export class Ledger {
  constructor(
    private readonly options: {
      readonly clock: Clock;
      /** Told of every change after its commit. */
      readonly onCommitted: (changes: readonly Change[]) => void;
    },
  ) {}

  /** What an event does to an execution; undefined: nothing. */
  plan(execution: Execution, event: ExecutionEvent, origin: EventOrigin): Change | undefined {
    return this.planAll(execution, [event], origin);
  }

  /** The same for what happened one after another and is stored as one; what does nothing in its turn is left out. */
  planAll(execution: Execution, events: readonly ExecutionEvent[], origin: EventOrigin): Change | undefined {
    return planChange(execution, events, origin, this.options.clock.now());
  }

  /** Keeps evidence for an execution that has ended; its state stays. Undefined once there is too much of it. */
  planLate(execution: Execution, event: ExecutionEvent, origin: EventOrigin): Change | undefined {
    return planLate(execution, event, origin, this.options.clock.now());
  }

  /**
   * Stores changes of one organization, and their consequences for other executions, inside the caller's transaction. Returns those of
   * the given changes that were stored: the others were changed meanwhile.
   */
  async store(db: Db, organizationId: string, changes: readonly Change[]): Promise<Change[]> {
    const executions = new ExecutionRepository(db);
    const stored = await executions.replace(organizationId, changes);
    const all = [...stored, ...(await consequencesOf(executions, stored, this.options.clock.now()))];
    // Last, because on PostgreSQL it makes the organization's other writers wait until the commit.
    await executions.log(organizationId, all.flatMap((change) => change.entries));
    if (all.length > 0) db.afterCommit(() => this.options.onCommitted(all));
    return stored;
  }

  /** Stores a new execution inside the caller's transaction. */
  async create(db: Db, execution: Execution, dedupeKey: string | undefined, origin: EventOrigin): Promise<void> {
    const { change, entry } = planSubmission(execution, origin);
    await new ExecutionRepository(db).create(execution, dedupeKey, entry);
    db.afterCommit(() => this.options.onCommitted([change]));
  }
}
