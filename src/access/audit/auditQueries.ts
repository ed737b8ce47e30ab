import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../database';
import { getPageSize, type Cursors } from '../../kernel/pages';
import type { AuditEvent } from './auditEvent';
import { AuditListRepository, type AuditFilter, type AuditPosition } from './auditListRepository';
import type { AuditLog } from './auditLog';

/** The maximum number of events that one query scans: a few milliseconds. */
const MAX_SCANNED_EVENTS = 2000;

/** Lists the audit events of an organization. */
export class AuditQueries {
  constructor(
    private readonly deps: {
      readonly database: Database;
      readonly cursors: Cursors;
      readonly trail: AuditLog;
      /** Returns the gRPC paths of the methods with a name; for any other text the text itself. */
      readonly findMethodPaths: (name: string) => readonly string[];
    },
  ) {}

  /**
   * Lists events, newest first. It includes all changes that have ended, unless the database is not writable. `method`:
   * a gRPC path, the name of a method, or the words of a command. Throws validation_failed.
   */
  async list(
    organizationId: string,
    query: Omit<AuditFilter, 'methods'> & { readonly method: string | undefined },
    size: number | undefined,
    token: string,
    signal: AbortSignal,
  ): Promise<{ events: readonly AuditEvent[]; nextPageToken: string }> {
    const { cursors, trail, database } = this.deps;
    const { method, ...otherFilters } = query;
    const filter: AuditFilter = {
      ...otherFilters,
      methods: method === undefined ? undefined : this.findPaths(method),
    };
    const listKey = [
      'audit-events',
      organizationId,
      JSON.stringify([
        query.from,
        query.to,
        query.keyId,
        query.userId,
        method,
        query.resource,
        query.outcome,
        query.requestId,
      ]),
    ];
    let position = cursors.decode<AuditPosition>(listKey, token, 'pageToken');
    // If the database is not writable, stored events are still readable, for example when the disk is full. The log
    // reports the waiting events.
    await trail.flush().catch(() => {});
    const maxEvents = getPageSize(size);
    const events: AuditEvent[] = []; // one more than the page, if there is a next page
    const repository = new AuditListRepository(database.db);
    do {
      signal.throwIfAborted();
      const found = await repository.find(
        organizationId,
        filter,
        position,
        maxEvents + 1 - events.length,
        MAX_SCANNED_EVENTS,
      );
      events.push(...found.events);
      position = found.nextPosition;
      await setImmediate(); // lets other work run
    } while (position && events.length <= maxEvents);
    const lastOfPage = events.length > maxEvents ? events[maxEvents - 1] : undefined;
    return {
      events: events.slice(0, maxEvents),
      nextPageToken: lastOfPage ? cursors.encode(listKey, { at: lastOfPage.at, seq: lastOfPage.seq }) : '',
    };
  }

  /** Returns the gRPC paths that a method filter covers. A name with `/` is a path already. */
  private findPaths(name: string): readonly string[] {
    return name.includes('/') ? [name] : this.deps.findMethodPaths(name);
  }
}
