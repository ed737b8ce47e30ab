import type { Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import { type Change, type EventOrigin, computeChange, recordLateEvidence, planSubmission } from './changePlan';
import { applyDependentChanges } from './dependentChanges';
import type { Execution } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ExecutionRepository } from '../store/executionRepository';

export type { Change, EventOrigin } from './changePlan';

/**
 * Stores what happened to executions: state, version, event log and all dependent changes.
 * Notifies listeners after the commit.
 */
export class ExecutionStore {
  constructor(
    private readonly options: {
      readonly clock: Clock;
      /** Called with every change after its commit. */
      readonly onCommitted: (changes: readonly Change[]) => void;
    },
  ) {}

  /** Plans the effect of an event on an execution; undefined if nothing changes. */
  plan(execution: Execution, event: ExecutionEvent, origin: EventOrigin): Change | undefined {
    return this.planAll(execution, [event], origin);
  }

  /** Plans the effect of several events as one change; events without effect are skipped. */
  planAll(execution: Execution, events: readonly ExecutionEvent[], origin: EventOrigin): Change | undefined {
    return computeChange(execution, events, origin, this.options.clock.now());
  }

  /** Logs evidence for a final execution without changing its state. Undefined once its log is full. */
  planLate(execution: Execution, event: ExecutionEvent, origin: EventOrigin): Change | undefined {
    return recordLateEvidence(execution, event, origin, this.options.clock.now());
  }

  /**
   * Stores changes of one organization and their dependent changes inside the caller's transaction. Returns the changes
   * that were stored; the others conflicted with concurrent changes.
   */
  async save(db: Db, organizationId: string, changes: readonly Change[]): Promise<Change[]> {
    const executions = new ExecutionRepository(db);
    const stored = await executions.replace(organizationId, changes);
    const all = [...stored, ...(await applyDependentChanges(executions, stored, this.options.clock.now()))];
    // Last, because on PostgreSQL it blocks the organization's other writers until the commit.
    await executions.appendToLog(
      organizationId,
      all.flatMap((change) => change.entries),
    );
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
