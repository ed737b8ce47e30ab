import type { Request, ServerStreamMethod } from '../calls/definitions';
import type { Execution, ExecutionEvent, WatchExecutionsRequest, WatchExecutionsResponse } from '../gen/actuator_command/v2/actuator_command_service';
import { overLostLinks } from './lostLinks';
import type { WatchOptions } from './watchOptions';

/** One event of one execution. */
export interface ExecutionNews {
  /** The execution when this was told, without its event log: it may have gone further than the event already. */
  readonly execution: Execution;
  readonly event: ExecutionEvent;
  /** Where to resume after this. */
  readonly resumeToken: string;
}

/** Of a client, what a watch of executions calls. */
export interface WatchesExecutions {
  readonly commands: { readonly watchExecutions: ServerStreamMethod<WatchExecutionsRequest, WatchExecutionsResponse> };
}

/**
 * Every event of the organization's executions (of one device, of one execution) in the order in which they were stored, over lost links: from
 * `resumeToken` of the request on, or from now. Each comes once; after a restart from a token that you kept, the last ones may come once more. Throws
 * PlantroomError for what another attempt cannot mend: `resume_token_expired` (some events are not kept any more: watch without
 * a token, and when the first token comes, at `onResumeToken`, read the executions by ListExecutions and GetExecution: what comes later comes here), `device_not_found`, `execution_not_found`, `validation_failed`, a key that may not.
 */
export async function* watchExecutions(client: WatchesExecutions, request: Request<WatchExecutionsRequest> = {}, options: WatchOptions = {}): AsyncIterableIterator<ExecutionNews> {
  let resumeToken = request.resumeToken ?? '';
  const call = options.signal ? { signal: options.signal } : {};
  for await (const { execution, event, ...next } of overLostLinks(client.commands, () => client.commands.watchExecutions({ ...request, resumeToken }, call), options)) {
    // The first response of each link carries only a token.
    if (execution && event) yield { execution, event, ...next };
    ({ resumeToken } = next);
    await options.onResumeToken?.(resumeToken);
  }
}
