import type { Execution, ExecutionEvent } from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Command } from '../../src/gen/gateway/v1/gateway_service';
import { fromTimestamp } from '../../src/kernel/timestamps';

/** A command as it came to the gateway; times are Unix milliseconds. */
interface Arrival {
  readonly executionId: string;
  readonly attempt: number;
  /** By the clock of this machine. */
  readonly at: number;
  /** By the server's clock. */
  readonly deadline: number;
  /** What the server said was left until then. */
  readonly leftMs: number;
}

/** What a command may take from the server to the gateway on a machine that is busy with all this, and what the server's clock may need to be put forward. */
const WAY_MS = 3000;

/** Transactions that run side by side take their times before they are put in order: so far the record may seem to say the opposite. */
const RACE_MS = 1000;

type Executions = ReadonlyMap<string, Execution | undefined>;

/** When each command came to the gateway, and for whom: what the server sent that it should not have. */
export class Arrivals {
  private readonly all: Arrival[] = [];

  /** A command came. */
  note({ executionId, attempt, deadline, expiresIn }: Command): void {
    const leftMs = expiresIn ? expiresIn.seconds * 1000 + expiresIn.nanos / 1e6 : 0;
    this.all.push({ executionId, attempt, at: Date.now(), deadline: deadline ? fromTimestamp(deadline) : 0, leftMs });
  }

  /** The executions that came. */
  get executionIds(): string[] {
    return [...new Set(this.all.map(({ executionId }) => executionId))];
  }

  /** What was sent after its deadline, after its end, or as a query that nobody needed any more. `aheadAt`: how far the server's clock was ahead of this machine's at that time, in milliseconds. */
  wrong(executions: Executions, aheadAt: (time: number) => number): string[] {
    const late = this.all.flatMap((arrival) => this.lateness(arrival, executions, arrival.at + aheadAt(arrival.at - WAY_MS) - WAY_MS));
    return [...late, ...this.executionIds.flatMap((id) => needlessAsking(executions.get(id), executions))];
  }

  /** `sentAt`: when the server sent it, by its clock, or later. */
  private lateness({ executionId, attempt, deadline, leftMs }: Arrival, executions: Executions, sentAt: number): string[] {
    const execution = executions.get(executionId);
    const parent = executions.get(execution?.parentExecutionId ?? '');
    const text = `${executionId} (attempt ${attempt}) was sent`;
    return [
      ...(leftMs <= 0 || sentAt > deadline ? [`${text} after its deadline`] : []),
      ...(sentAt > endOf(execution) ? [`${text} after its end`] : []),
      ...(sentAt > endOf(parent) ? [`${text} after the end of what asked for it`] : []),
    ];
  }
}

/** A query that the record itself says was sent when the execution that asked for it had ended, or had its answer. */
function needlessAsking(query: Execution | undefined, executions: Executions): string[] {
  if (query?.parentExecutionId === undefined) return [];
  const parent = executions.get(query.parentExecutionId);
  const answered = parent?.events.find(({ event }) => event === 'query_answered');
  const lastSent = Math.max(...query.events.filter(({ event }) => event === 'dispatch').map(timeOf));
  const afterEnd = lastSent - endOf(parent);
  const afterAnswer = answered ? lastSent - timeOf(answered) : 0;
  const text = `the query ${query.id} was sent when ${query.parentExecutionId}`;
  return [...(afterEnd > RACE_MS ? [`${text} had ended ${afterEnd} ms before`] : []), ...(afterAnswer > RACE_MS ? [`${text} had its answer ${afterAnswer} ms before`] : [])];
}

function endOf(execution: Execution | undefined): number {
  return execution?.finishedAt ? fromTimestamp(execution.finishedAt) : Infinity;
}

function timeOf({ time }: ExecutionEvent): number {
  return time ? fromTimestamp(time) : 0;
}
