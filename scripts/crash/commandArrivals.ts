import type { Execution, ExecutionEvent } from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Command } from '../../src/gen/gateway/v1/gateway_service';
import { fromTimestamp } from '../../src/kernel/timestamps';

/** A command that the gateway received; times are Unix milliseconds. */
interface Arrival {
  readonly executionId: string;
  readonly attempt: number;
  /** By the clock of this machine. */
  readonly at: number;
  /** By the server's clock. */
  readonly deadline: number;
  /** The time until the deadline, as reported by the server. */
  readonly remainingMs: number;
}

/**
 * The maximum delay of a command between server and gateway on a busy machine, including the delay until the server sees
 * that its clock was moved.
 */
const MAX_TRANSFER_MS = 3000;

/**
 * Concurrent transactions read the time before they are ordered, so recorded times may contradict the order by so much.
 */
const MAX_CLOCK_SKEW_MS = 1000;

type Executions = ReadonlyMap<string, Execution | undefined>;

/** Records when each command reached the gateway, and finds commands that the server should not have sent. */
export class CommandArrivals {
  private readonly all: Arrival[] = [];

  /** Records a command that the gateway received. */
  record({ executionId, attempt, deadline, expiresIn }: Command): void {
    const remainingMs = expiresIn ? expiresIn.seconds * 1000 + expiresIn.nanos / 1e6 : 0;
    this.all.push({
      executionId,
      attempt,
      at: Date.now(),
      deadline: deadline ? fromTimestamp(deadline) : 0,
      remainingMs,
    });
  }

  /** The ids of the executions whose commands were received. */
  get executionIds(): string[] {
    return [...new Set(this.all.map(({ executionId }) => executionId))];
  }

  /**
   * Lists commands that were sent after their deadline, after the end of their execution, or as a query that was no longer
   * needed. `aheadAt` returns by how many milliseconds the server's clock was ahead of this machine's at a time.
   */
  listViolations(executions: Executions, aheadAt: (time: number) => number): string[] {
    const late = this.all.flatMap((arrival) =>
      this.checkArrival(arrival, executions, arrival.at + aheadAt(arrival.at - MAX_TRANSFER_MS) - MAX_TRANSFER_MS),
    );
    return [...late, ...this.executionIds.flatMap((id) => checkQuery(executions.get(id), executions))];
  }

  /** `sentAt`: the earliest time of sending, by the server's clock. */
  private checkArrival(
    { executionId, attempt, deadline, remainingMs }: Arrival,
    executions: Executions,
    sentAt: number,
  ): string[] {
    const execution = executions.get(executionId);
    const parent = executions.get(execution?.parentExecutionId ?? '');
    const text = `${executionId} (attempt ${attempt}) was sent`;
    return [
      ...(remainingMs <= 0 || sentAt > deadline ? [`${text} after its deadline`] : []),
      ...(sentAt > getEnd(execution) ? [`${text} after its end`] : []),
      ...(sentAt > getEnd(parent) ? [`${text} after the end of its parent execution`] : []),
    ];
  }
}

/** Reports a query that, by its own events, was sent after its parent execution had ended or had its response. */
function checkQuery(query: Execution | undefined, executions: Executions): string[] {
  if (query?.parentExecutionId === undefined) return [];
  const parent = executions.get(query.parentExecutionId);
  const answered = parent?.events.find(({ event }) => event === 'query_answered');
  const lastSent = Math.max(...query.events.filter(({ event }) => event === 'dispatch').map(getTime));
  const afterEnd = lastSent - getEnd(parent);
  const afterAnswer = answered ? lastSent - getTime(answered) : 0;
  const text = `the query ${query.id} was sent when ${query.parentExecutionId}`;
  return [
    ...(afterEnd > MAX_CLOCK_SKEW_MS ? [`${text} had ended ${afterEnd} ms before`] : []),
    ...(afterAnswer > MAX_CLOCK_SKEW_MS ? [`${text} had its response ${afterAnswer} ms before`] : []),
  ];
}

function getEnd(execution: Execution | undefined): number {
  return execution?.finishedAt ? fromTimestamp(execution.finishedAt) : Infinity;
}

function getTime({ time }: ExecutionEvent): number {
  return time ? fromTimestamp(time) : 0;
}
