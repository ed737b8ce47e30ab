import { DurationsBy, LONG } from '../kernel/durations';
import { Tally } from '../kernel/tally';
import { type Execution, EXECUTION_STATES, type ExecutionState, isFinal } from './execution';
import type { EventKind } from './machine/executionEvent';

/** What became of an attempt to send: `sent`: handed to the connection; `put_back`: it provably did not leave; `failed`: nobody knows. */
export type DispatchResult = 'sent' | 'put_back' | 'failed';

const WITHDRAWALS: ReadonlySet<string> = new Set(['cancelled', 'removed'] satisfies EventKind[]);

/** What executions did since the server started, of all organizations. */
export class ExecutionCounts {
  /** Those that ran their course. */
  readonly ended = new Tally<ExecutionState>(EXECUTION_STATES.filter(isFinal));
  /** Those that ended because they were not wanted any more, or their device or connection was removed: no fault of any connection. */
  readonly withdrawn = new Tally<ExecutionState>(['transport_unreachable', 'unconfirmed', 'accepted_no_l4']);
  readonly dispatches = new Tally<DispatchResult>(['sent', 'put_back', 'failed']);
  /** From the request to the end, by the state at the end. */
  readonly durations = new DurationsBy<ExecutionState>(LONG);

  /** One has ended, by the event that ended it. */
  end({ state, enqueuedAt, updatedAt }: Pick<Execution, 'state' | 'enqueuedAt' | 'updatedAt'>, cause: string | undefined): void {
    (WITHDRAWALS.has(cause ?? '') ? this.withdrawn : this.ended).add(state);
    this.durations.of(state).add(updatedAt - enqueuedAt);
  }
}
