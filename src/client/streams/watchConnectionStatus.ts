import type { Request, ServerStreamMethod } from '../calls/definitions';
import { type WatchConnectionStatusRequest, WatchConnectionStatusResponse } from '../gen/connection/connection_service';
import { ChangeDetector } from './changeDetector';
import { withReconnect } from './reconnect';
import type { LinkOptions } from './watchOptions';

/** The part of a client that watchConnectionStatus uses. */
export interface WatchConnectionStatusClient {
  readonly connections: {
    readonly watchConnectionStatus: ServerStreamMethod<WatchConnectionStatusRequest, WatchConnectionStatusResponse>;
  };
}

/**
 * Watches the status of connections and reconnects automatically. First it returns the status of each connection, then
 * one response with `complete`, then the changes. After a lost stream, only connections that changed in the meantime
 * are returned; a connection that was deleted in the meantime is returned as `deleted`. Intermediate states may be
 * skipped. The iteration ends when all connections of the request are deleted. Throws PlantroomError for errors that a
 * retry cannot fix: `connection_not_found` (also if a requested connection was deleted while the stream was lost),
 * `validation_failed`, and errors of a key without permission.
 */
export async function* watchConnectionStatus(
  client: WatchConnectionStatusClient,
  request: Request<WatchConnectionStatusRequest> = {},
  options: LinkOptions = {},
): AsyncIterableIterator<WatchConnectionStatusResponse> {
  const requestedIds = new Set(request.ids ?? []);
  const statuses = new Statuses();
  const callOptions = options.signal ? { signal: options.signal } : {};
  const open = (): AsyncIterable<WatchConnectionStatusResponse> => {
    statuses.beginStream();
    return client.connections.watchConnectionStatus({ ...request, ids: [...requestedIds] }, callOptions);
  };
  for await (const response of withReconnect(client.connections, open, options)) {
    for (const update of statuses.listChanges(response)) {
      yield update;
      // Without any id, the next stream would return all connections.
      if (update.deleted && requestedIds.delete(update.connectionId) && requestedIds.size === 0) return;
    }
  }
}

/** The last returned status of each connection. */
class Statuses {
  private readonly changes = new ChangeDetector(WatchConnectionStatusResponse);
  private readonly seenOnStream = new Set<string>();
  private isComplete = false;

  /** Called when a stream opens: the server sends every status again. */
  beginStream(): void {
    this.seenOnStream.clear();
  }

  /** Returns the responses for the caller: changes only. */
  listChanges(response: WatchConnectionStatusResponse): WatchConnectionStatusResponse[] {
    if (response.complete) return this.finishInitialStatus(response);
    if (response.deleted) return this.changes.forget(response.connectionId) ? [response] : [];
    this.seenOnStream.add(response.connectionId);
    return this.changes.storeIfNew(response.connectionId, response) ? [response] : [];
  }

  /** Handles `complete`: connections that the server did not send on this stream are deleted. */
  private finishInitialStatus(response: WatchConnectionStatusResponse): WatchConnectionStatusResponse[] {
    const deletedIds = this.changes.ids().filter((id) => !this.seenOnStream.has(id));
    for (const id of deletedIds) this.changes.forget(id);
    const deletions = deletedIds.map((connectionId) => ({
      connectionId,
      status: undefined,
      deleted: true,
      complete: false,
    }));
    // The caller receives `complete` only once, not after each reconnect.
    if (this.isComplete) return deletions;
    this.isComplete = true;
    return [...deletions, response];
  }
}
