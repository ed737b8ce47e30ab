import { checkSettleOptions } from '../calls/checkOptions';
import type { Request, UnaryMethod } from '../calls/definitions';
import { Execution, type ExecuteCommandRequest, type ExecuteCommandResponse, ExecutionState, type GetExecutionRequest, type WatchExecutionsResponse } from '../gen/actuator_command/v2/actuator_command_service';
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
  /** How long it may take in all, in whole milliseconds, 1 to 2,147,483,647; then it fails with `DEADLINE_EXCEEDED`. The server goes on with the execution. */
  readonly timeoutMs: number;
}

/** How long a stream that has brought the end of its execution may take to end, in milliseconds. A server before 0.2.0 lets it go on. */
const ENDS_WITHIN_MS = 1000;

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
  for await (const execution of overLostLinks(client.commands, () => oneLink(client, executionId, options.signal), options)) {
    if (changes.isNew(executionId, execution)) yield execution;
    if (isFinal(execution)) return;
  }
}

/**
 * Waits until an execution is final, whatever its end. Throws as followExecution does, and `DEADLINE_EXCEEDED` when the time is over, with
 * `metadata.execution_id`. Throws `options_invalid` before anything else.
 */
export async function settled(client: FollowsExecutions, executionId: string, options: SettleOptions): Promise<Execution> {
  checkSettleOptions(options);
  return await settledWithin(new Time(options), client, executionId);
}

/**
 * Executes a command and waits for its end, which may be a refusal: `request_rejected`. Throws what ExecuteCommand and `settled` throw. An error without
 * `metadata.execution_id` does not say whether the command was executed: repeat the call with the `metadata.trigger_id` of the error as `triggerId`, or with
 * the one that you gave, and it is executed once in all. Without it a repeated call is another execution.
 */
export async function executeAndSettle(client: ExecutesAndFollows, request: Request<ExecuteCommandRequest>, options: SettleOptions): Promise<Execution> {
  checkSettleOptions(options);
  const time = new Time(options);
  const { executionId } = await client.commands.executeCommand(request, { signal: time.signal }).catch((error: unknown) => {
    throw time.isOver ? time.over(error, `the command had no answer within ${options.timeoutMs} ms, and may have been executed; repeat it with the same triggerId`) : error;
  });
  return await settledWithin(time, client, executionId);
}

/** The time that is left, and the signal of the caller. */
class Time {
  readonly signal: AbortSignal;
  private readonly end: AbortSignal;

  constructor(readonly options: SettleOptions) {
    this.end = AbortSignal.timeout(options.timeoutMs);
    this.signal = options.signal ? AbortSignal.any([options.signal, this.end]) : this.end;
  }

  /** Whether it is over, and that not because the caller ended it. */
  get isOver(): boolean {
    return this.end.aborted && !this.options.signal?.aborted;
  }

  /** The error of what took too long, with what `error` knows of it. */
  over(error: unknown, message: string, metadata: Readonly<Record<string, string>> = {}): PlantroomError {
    const known = error instanceof PlantroomError ? error : undefined;
    return new PlantroomError(message, { status: 'DEADLINE_EXCEEDED', requestId: known?.requestId ?? '', metadata: { ...known?.metadata, ...metadata } }, { cause: error });
  }
}

async function settledWithin(time: Time, client: FollowsExecutions, executionId: string): Promise<Execution> {
  const { options, signal } = time;
  let last: Execution | undefined;
  try {
    for await (const execution of followExecution(client, executionId, { ...options, signal })) last = execution;
  } catch (error) {
    if (!time.isOver) throw error;
    const reached = last ? `its state was ${ExecutionState[last.state] ?? last.state}` : 'nothing was heard of it';
    throw time.over(error, `the execution ${executionId} was not final after ${options.timeoutMs} ms, ${reached}; it goes on: ask for it by GetExecution, or wait longer`, { execution_id: executionId });
  }
  return last as Execution; // the last one is final, else it would have been thrown
}

/** One stream of an execution; it is left to the server to end it where it has brought the end of the execution. */
async function* oneLink(client: FollowsExecutions, executionId: string, signal: AbortSignal | undefined): AsyncGenerator<Execution> {
  const call = signal ? { signal } : {};
  const responses = client.commands.watchExecutions({ executionId, endsWhenFinal: true }, call);
  let isOver = false;
  try {
    for await (const execution of statesOf(responses, async () => await client.commands.getExecution({ executionId }, call))) {
      isOver = isFinal(execution);
      yield execution;
    }
  } finally {
    if (isOver) void untilItsEnd(responses);
    else await responses.return?.();
  }
}

/** The execution as it is, then with each event that is not in that. It needs no token: each link begins with what is. Does not end the stream. */
async function* statesOf(responses: AsyncIterator<WatchExecutionsResponse>, get: () => Promise<Execution>): AsyncGenerator<Execution> {
  let seen: number | undefined;
  for (let next = await responses.next(); next.done !== true; next = await responses.next()) {
    if (seen === undefined) {
      // The watch has begun, so nothing that comes after this answer is missed.
      const { events, ...now } = await get();
      seen = events.at(-1)?.sequence ?? 0;
      yield { ...now, events: [] };
    }
    const { execution, event } = next.value;
    if (execution && event && event.sequence > seen) yield execution;
  }
}

/** Lets the server end a stream, for one that is cut off counts against the connection: those of a quick caller would cost it all its calls. */
async function untilItsEnd(responses: AsyncIterableIterator<unknown>): Promise<void> {
  const timer = setTimeout(() => void responses.return?.(), ENDS_WITHIN_MS);
  try {
    while ((await responses.next()).done !== true);
  } catch {
    // The execution has ended; how this stream did matters to nobody.
  } finally {
    clearTimeout(timer);
  }
}
