import { checkSettleOptions } from '../calls/checkOptions';
import type { Request, UnaryMethod } from '../calls/definitions';
import {
  Execution,
  type ExecuteCommandRequest,
  type ExecuteCommandResponse,
  ExecutionState,
  type GetExecutionRequest,
  type WatchExecutionsResponse,
} from '../gen/actuator_command/v2/actuator_command_service';
import { PlantroomError } from '../plantroomError';
import { ChangeDetector } from './changeDetector';
import { withReconnect } from './reconnect';
import type { WatchExecutionsClient } from './watchExecutions';
import type { LinkOptions } from './watchOptions';

/** The part of a client that watchExecution and waitForExecution use. */
export interface WatchExecutionClient {
  readonly commands: WatchExecutionsClient['commands'] & {
    readonly getExecution: UnaryMethod<GetExecutionRequest, Execution>;
  };
}

/** The part of a client that executeAndWait uses. */
export interface ExecuteCommandClient {
  readonly commands: WatchExecutionClient['commands'] & {
    readonly executeCommand: UnaryMethod<ExecuteCommandRequest, ExecuteCommandResponse>;
  };
}

/** The options of waiting for the final state of an execution. */
export interface WaitOptions extends LinkOptions {
  /**
   * The maximum total time, in whole milliseconds, 1 to 2,147,483,647; after that it fails with `DEADLINE_EXCEEDED`.
   * The execution continues on the server.
   */
  readonly timeoutMs: number;
}

/**
 * How long the server may take to end a stream after the final state, in milliseconds. Servers before 0.2.0 do not end
 * it.
 */
const STREAM_END_TIMEOUT_MS = 1000;

const OPEN_STATES: ReadonlySet<ExecutionState> = new Set([
  ExecutionState.EXECUTION_STATE_UNSPECIFIED,
  ExecutionState.EXECUTION_STATE_ENQUEUED,
  ExecutionState.EXECUTION_STATE_IN_TRANSIT,
  ExecutionState.EXECUTION_STATE_DELIVERED,
  ExecutionState.EXECUTION_STATE_ACCEPTED,
]);

/** Returns whether an execution is final. A state that this version does not know is final if `finishedAt` is set. */
export function isFinal({ state, finishedAt }: Pick<Execution, 'state' | 'finishedAt'>): boolean {
  if (finishedAt !== undefined) return true;
  const isKnownState = ExecutionState[state] !== undefined && state !== ExecutionState.UNRECOGNIZED;
  return isKnownState && !OPEN_STATES.has(state);
}

/**
 * Yields the current execution and then every change, without the event log, until it is final; reconnects
 * automatically. Intermediate states may be skipped if they follow each other quickly or while the stream is lost.
 * Throws PlantroomError for errors that a retry cannot fix: `execution_not_found`, `validation_failed`, and errors of a
 * key without permission.
 */
export async function* watchExecution(
  client: WatchExecutionClient,
  executionId: string,
  options: LinkOptions = {},
): AsyncIterableIterator<Execution> {
  const changes = new ChangeDetector(Execution);
  for await (const execution of withReconnect(
    client.commands,
    () => openStream(client, executionId, options.signal),
    options,
  )) {
    if (changes.storeIfNew(executionId, execution)) yield execution;
    if (isFinal(execution)) return;
  }
}

/**
 * Waits until an execution is final, successful or not, and returns it. Throws the errors of watchExecution, and
 * `DEADLINE_EXCEEDED` with `metadata.execution_id` after `timeoutMs`. Invalid options throw `options_invalid` before
 * any call.
 */
export async function waitForExecution(
  client: WatchExecutionClient,
  executionId: string,
  options: WaitOptions,
): Promise<Execution> {
  checkSettleOptions(options);
  return await waitWithin(new Timeout(options), client, executionId);
}

/**
 * Executes a command and waits until the execution is final, which may be `request_rejected`. Throws the errors of
 * ExecuteCommand and `waitForExecution`. An error without `metadata.execution_id` does not say whether the command was
 * executed: repeat the call with the `metadata.trigger_id` of the error as `triggerId`, or with your own trigger id,
 * and the command is executed only once. Without it, a repeated call starts another execution.
 */
export async function executeAndWait(
  client: ExecuteCommandClient,
  request: Request<ExecuteCommandRequest>,
  options: WaitOptions,
): Promise<Execution> {
  checkSettleOptions(options);
  const timeout = new Timeout(options);
  const { executionId } = await client.commands
    .executeCommand(request, { signal: timeout.signal })
    .catch((error: unknown) => {
      throw timeout.isExceeded
        ? timeout.createError(
            error,
            `ExecuteCommand got no response within ${options.timeoutMs} ms, and the command may have been executed; repeat it with the same triggerId`,
          )
        : error;
    });
  return await waitWithin(timeout, client, executionId);
}

/** The timeout of a wait, combined with the signal of the caller. */
class Timeout {
  readonly signal: AbortSignal;
  private readonly timeoutSignal: AbortSignal;

  constructor(readonly options: WaitOptions) {
    this.timeoutSignal = AbortSignal.timeout(options.timeoutMs);
    this.signal = options.signal ? AbortSignal.any([options.signal, this.timeoutSignal]) : this.timeoutSignal;
  }

  /** Whether the time is over and the caller did not cancel the wait. */
  get isExceeded(): boolean {
    return this.timeoutSignal.aborted && !this.options.signal?.aborted;
  }

  /** Creates the timeout error, with the request id and metadata of `error`. */
  createError(error: unknown, message: string, metadata: Readonly<Record<string, string>> = {}): PlantroomError {
    const plantroomError = error instanceof PlantroomError ? error : undefined;
    return new PlantroomError(
      message,
      {
        status: 'DEADLINE_EXCEEDED',
        requestId: plantroomError?.requestId ?? '',
        metadata: { ...plantroomError?.metadata, ...metadata },
      },
      { cause: error },
    );
  }
}

/** Watches the execution until it is final and returns it. Throws `DEADLINE_EXCEEDED` when the timeout is over. */
async function waitWithin(timeout: Timeout, client: WatchExecutionClient, executionId: string): Promise<Execution> {
  const { options, signal } = timeout;
  let lastExecution: Execution | undefined;
  try {
    for await (const execution of watchExecution(client, executionId, { ...options, signal }))
      lastExecution = execution;
  } catch (error) {
    if (!timeout.isExceeded) throw error;
    const lastState = lastExecution
      ? `its state was ${ExecutionState[lastExecution.state] ?? lastExecution.state}`
      : 'its state is unknown';
    throw timeout.createError(
      error,
      `execution ${executionId} was not final after ${options.timeoutMs} ms (${lastState}); it continues on the server: call GetExecution, or wait longer`,
      { execution_id: executionId },
    );
  }
  return lastExecution as Execution; // It is final: otherwise the loop would have thrown.
}

/** Yields the states of an execution from one stream. After the final state, the server ends the stream. */
async function* openStream(
  client: WatchExecutionClient,
  executionId: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Execution> {
  const call = signal ? { signal } : {};
  const responses = client.commands.watchExecutions({ executionId, endsWhenFinal: true }, call);
  let hasFinished = false;
  try {
    for await (const execution of listStates(
      responses,
      async () => await client.commands.getExecution({ executionId }, call),
    )) {
      hasFinished = isFinal(execution);
      yield execution;
    }
  } finally {
    if (hasFinished) void drainStream(responses);
    else await responses.return?.();
  }
}

/**
 * Yields the current execution, and then the execution of every later event. It needs no resume token, because it
 * starts with the current state. It does not end the stream.
 */
async function* listStates(
  responses: AsyncIterator<WatchExecutionsResponse>,
  getExecution: () => Promise<Execution>,
): AsyncGenerator<Execution> {
  let lastSequence: number | undefined;
  for (let next = await responses.next(); next.done !== true; next = await responses.next()) {
    if (lastSequence === undefined) {
      // The watch is already open, so no event after this response is missed.
      const { events, ...current } = await getExecution();
      lastSequence = events.at(-1)?.sequence ?? 0;
      yield { ...current, events: [] };
    }
    const { execution, event } = next.value;
    if (execution && event && event.sequence > lastSequence) yield execution;
  }
}

/**
 * Reads and discards what is left of a stream until the server ends it, or for at most 1 s. A client that resets many
 * streams may lose its connection, because the server counts them.
 */
async function drainStream(responses: AsyncIterableIterator<unknown>): Promise<void> {
  const timer = setTimeout(() => void responses.return?.(), STREAM_END_TIMEOUT_MS);
  try {
    let isDone = false;
    while (!isDone) isDone = (await responses.next()).done === true;
  } catch {
    // The execution is final, so errors of the stream do not matter.
  } finally {
    clearTimeout(timer);
  }
}
