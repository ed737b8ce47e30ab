import { LabeledDurationHistograms, LONG_DURATION_BUCKETS } from '../kernel/durations';
import { Counter } from '../kernel/counter';
import { type Execution, EXECUTION_STATES, type ExecutionState, isFinal } from './execution';
import type { EventKind } from './machine/executionEvent';

/**
 * The outcome of an attempt to send: `sent`: handed to the connection; `requeued`: it provably did not leave the
 * server; `failed`: unknown.
 */
export type DispatchResult = 'sent' | 'requeued' | 'failed';

const WITHDRAWALS: ReadonlySet<string> = new Set(['cancelled', 'removed'] satisfies EventKind[]);

/** Execution metrics since the start of the server, across all organizations. */
export class ExecutionCounts {
  /** Executions that finished, without those in `withdrawn`. */
  readonly ended = new Counter<ExecutionState>(EXECUTION_STATES.filter(isFinal));
  /**
   * Executions that finished because they were cancelled, or because their device or connection was removed. These are
   * not connection failures.
   */
  readonly withdrawn = new Counter<ExecutionState>(['transport_unreachable', 'unconfirmed', 'accepted_no_l4']);
  readonly dispatches = new Counter<DispatchResult>(['sent', 'requeued', 'failed']);
  /** Time from request to final state, by final state. */
  readonly durations = new LabeledDurationHistograms<ExecutionState>(LONG_DURATION_BUCKETS);

  /**
   * Counts an execution that reached a final state. `cause`: the event that caused it; executions that were cancelled
   * or removed are counted separately, because they are not connection failures.
   */
  addFinished(
    { state, enqueuedAt, updatedAt }: Pick<Execution, 'state' | 'enqueuedAt' | 'updatedAt'>,
    cause: string | undefined,
  ): void {
    (WITHDRAWALS.has(cause ?? '') ? this.withdrawn : this.ended).add(state);
    this.durations.get(state).add(updatedAt - enqueuedAt);
  }
}
