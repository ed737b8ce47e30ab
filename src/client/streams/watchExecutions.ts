import type { Request, ServerStreamMethod } from '../calls/definitions';
import type {
  Execution,
  ExecutionEvent,
  WatchExecutionsRequest,
  WatchExecutionsResponse,
} from '../gen/actuator_command/v2/actuator_command_service';
import { withReconnect } from './reconnect';
import type { WatchOptions } from './watchOptions';

/** An event of an execution. */
export interface ExecutionUpdate {
  /** The execution at the time of this response, without its event log. It may already have moved past the event. */
  readonly execution: Execution;
  readonly event: ExecutionEvent;
  /** The token to resume after this event. */
  readonly resumeToken: string;
}

/** The part of a client that watchExecutions uses. */
export interface WatchExecutionsClient {
  readonly commands: { readonly watchExecutions: ServerStreamMethod<WatchExecutionsRequest, WatchExecutionsResponse> };
}

/**
 * Yields every event of the organization's executions (or of one device or one execution) in the order in which they
 * are stored, and reconnects automatically: from `resumeToken` of the request, or from now. Each event is returned
 * once; after a restart from a stored token, the last events may be repeated.
 *
 * Throws PlantroomError for errors that a retry cannot fix: `resume_token_expired` (some events are no longer stored:
 * watch without a token, and at the first call of `onResumeToken` read the executions with ListExecutions and
 * GetExecution; this function then yields all later events), `device_not_found`, `execution_not_found`,
 * `validation_failed`, and permission errors.
 */
export async function* watchExecutions(
  client: WatchExecutionsClient,
  request: Request<WatchExecutionsRequest> = {},
  options: WatchOptions = {},
): AsyncIterableIterator<ExecutionUpdate> {
  let resumeToken = request.resumeToken ?? '';
  const callOptions = options.signal ? { signal: options.signal } : {};
  for await (const { execution, event, ...next } of withReconnect(
    client.commands,
    () => client.commands.watchExecutions({ ...request, resumeToken }, callOptions),
    options,
  )) {
    // The first response of each stream contains only a token.
    if (execution && event) yield { execution, event, ...next };
    ({ resumeToken } = next);
    await options.onResumeToken?.(resumeToken);
  }
}
