import type { Request, ServerStreamMethod } from '../calls/definitions';
import { type WatchConnectionStatusRequest, WatchConnectionStatusResponse } from '../gen/connection/connection_service';
import { Changes } from './changes';
import { overLostLinks } from './lostLinks';
import type { LinkOptions } from './watchOptions';

/** Of a client, what a watch of connections calls. */
export interface WatchesConnectionStatus {
  readonly connections: { readonly watchConnectionStatus: ServerStreamMethod<WatchConnectionStatusRequest, WatchConnectionStatusResponse> };
}

/**
 * How connections are doing, over lost links: first each once, then one response that says `complete`, then the changes. After a lost link the server
 * tells all anew; of that, only what has changed meanwhile comes out here, a connection that was deleted meanwhile as `deleted`. States between two that
 * were told may be left out. Ends when every connection that was named is deleted. Throws PlantroomError for what another attempt cannot mend:
 * `connection_not_found` (of those that were named one was deleted while the link was lost, too), `validation_failed`, a key that may not.
 */
export async function* watchConnectionStatus(client: WatchesConnectionStatus, request: Request<WatchConnectionStatusRequest> = {}, options: LinkOptions = {}): AsyncIterableIterator<WatchConnectionStatusResponse> {
  const named = new Set(request.ids ?? []);
  const known = new Statuses();
  const call = options.signal ? { signal: options.signal } : {};
  const open = (): AsyncIterable<WatchConnectionStatusResponse> => {
    known.begin();
    return client.connections.watchConnectionStatus({ ...request, ids: [...named] }, call);
  };
  for await (const response of overLostLinks(client.connections, open, options)) {
    for (const news of known.newsOf(response)) {
      yield news;
      // Without a name left the next link would ask for all.
      if (news.deleted && named.delete(news.connectionId) && named.size === 0) return;
    }
  }
}

/** What was told of each connection. */
class Statuses {
  private readonly told = new Changes(WatchConnectionStatusResponse);
  private readonly thisTime = new Set<string>();
  private isComplete = false;

  /** A link begins: all will be told anew. */
  begin(): void {
    this.thisTime.clear();
  }

  /** What of a response is news. */
  newsOf(response: WatchConnectionStatusResponse): WatchConnectionStatusResponse[] {
    if (response.complete) return this.completed(response);
    if (response.deleted) return this.told.forget(response.connectionId) ? [response] : [];
    this.thisTime.add(response.connectionId);
    return this.told.isNew(response.connectionId, response) ? [response] : [];
  }

  /** All were told: those that were not are gone. */
  private completed(response: WatchConnectionStatusResponse): WatchConnectionStatusResponse[] {
    const gone = this.told.ids().filter((id) => !this.thisTime.has(id) && this.told.forget(id));
    const first = this.isComplete ? [] : [response];
    this.isComplete = true;
    return [...gone.map((connectionId) => ({ connectionId, status: undefined, deleted: true, complete: false })), ...first];
  }
}
