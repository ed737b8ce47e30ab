import type { Request, UnaryMethod } from '../calls/definitions';
import { Execution, type ExecuteCommandRequest, type ExecuteCommandResponse, ExecutionState, type GetExecutionRequest } from '../gen/actuator_command/v2/actuator_command_service';
import { PlantroomError } from '../plantroomError';
import { Changes } from './changes';
import { overLostLinks } from './lostLinks';
import type { WatchesExecutions } from './watchExecutions';
import type { LinkOptions } from './watchOptions';

/** Of a client, what following an execution calls. */
export interface FollowsExecutions {
  readonly commands: WatchesExecutions['commands'] & { readonly getExecution: UnaryMethod<GetExecutionRequest, Execution> };
}

/** Of a client, what executing and following calls. */
export interface ExecutesAndFollows {
  readonly commands: FollowsExecutions['commands'] & { readonly executeCommand: UnaryMethod<ExecuteCommandRequest, ExecuteCommandResponse> };
}

/** What waiting for the end of an execution may have of its own. */
export interface SettleOptions extends LinkOptions {
  /** How long to wait, in milliseconds; then it fails with `DEADLINE_EXCEEDED`. The server goes on with the execution. */
  readonly timeoutMs: number;
}

const NOT_FINAL: ReadonlySet<ExecutionState> = new Set([ExecutionState.EXECUTION_STATE_UNSPECIFIED, ExecutionState.EXECUTION_STATE_ENQUEUED, ExecutionState.EXECUTION_STATE_IN_TRANSIT, ExecutionState.EXECUTION_STATE_DELIVERED, ExecutionState.EXECUTION_STATE_ACCEPTED]);

/** Whether an execution has come to its end. A state that this version does not know is final if the execution says when it finished. */
export function isFinal({ state, finishedAt }: Pick<Execution, 'state' | 'finishedAt'>): boolean {
  return finishedAt !== undefined || (ExecutionState[state] !== undefined && state !== ExecutionState.UNRECOGNIZED && !NOT_FINAL.has(state));
}

/**
 * An execution as it is, then each time that it changed, without its event log, until it is final; over lost links. States that follow each other fast, or while
 * the link is lost, may come as one. Throws PlantroomError for what another attempt cannot mend: `execution_not_found`, `validation_failed`, a key that may not.
 */
export async function* followExecution(client: FollowsExecutions, executionId: string, options: LinkOptions = {}): AsyncIterableIterator<Execution> {
  const changes = new Changes(Execution);
  for await (const execution of overLostLinks(() => oneLink(client, executionId, options.signal), options)) {
    if (changes.isNew(executionId, execution)) yield execution;
    if (isFinal(execution)) return;
  }
}

/** Waits until an execution is final, whatever its end. Throws as followExecution does, and `DEADLINE_EXCEEDED` when the time is over. */
export async function settled(client: FollowsExecutions, executionId: string, options: SettleOptions): Promise<Execution> {
  const time = AbortSignal.timeout(options.timeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, time]) : time;
  let last: Execution | undefined;
  try {
    for await (const execution of followExecution(client, executionId, { ...options, signal })) last = execution;
  } catch (error) {
    if (!time.aborted || options.signal?.aborted) throw error;
    const reached = last ? `its state was ${ExecutionState[last.state] ?? last.state}` : 'nothing was heard of it';
    const message = `the execution ${executionId} was not final after ${options.timeoutMs} ms, ${reached}; it goes on: ask for it by GetExecution, or wait longer`;
    throw new PlantroomError(message, { status: 'DEADLINE_EXCEEDED', metadata: { execution_id: executionId } }, { cause: error });
  }
  return last as Execution; // the last one is final, else it would have been thrown
}

/**
 * Executes a command and waits for its end, which may be a refusal: `request_rejected`. Throws what ExecuteCommand and `settled` throw. After
 * `DEADLINE_EXCEEDED` or a lost answer the call is safe to repeat with the same `triggerId`.
 */
export async function executeAndSettle(client: ExecutesAndFollows, request: Request<ExecuteCommandRequest>, options: SettleOptions): Promise<Execution> {
  const { executionId } = await client.commands.executeCommand(request, options.signal ? { signal: options.signal } : {});
  return await settled(client, executionId, options);
}

/** The execution as it is, then with each event that is not in that. It needs no token: each link begins with what is. */
async function* oneLink(client: FollowsExecutions, executionId: string, signal: AbortSignal | undefined): AsyncGenerator<Execution> {
  const call = signal ? { signal } : {};
  let seen: number | undefined;
  for await (const { execution, event } of client.commands.watchExecutions({ executionId }, call)) {
    if (seen === undefined) {
      // The watch has begun, so nothing that comes after this answer is missed.
      const { events, ...now } = await client.commands.getExecution({ executionId }, call);
      seen = events.at(-1)?.sequence ?? 0;
      yield { ...now, events: [] };
    }
    if (execution && event && event.sequence > seen) yield execution;
  }
}
