import type { Database } from '../../database';
import { pageSize, type Cursors } from '../../kernel/pages';
import type { AuditEvent } from './auditEvent';
import { AuditListRepository, type AuditFilter, type AuditPosition } from './auditListRepository';
import type { AuditTrail } from './auditTrail';

/** Events that one look may read: a few milliseconds. */
const LOOKS = 2000;

/** Lists the events of an organization. */
export class AuditQueries {
  constructor(
    private readonly deps: {
      readonly database: Database;
      readonly cursors: Cursors;
      readonly trail: AuditTrail;
      /** The gRPC paths of the methods of a name; of anything else just that. */
      readonly methodsNamed: (name: string) => readonly string[];
    },
  ) {}

  /** Newest first; what had ended by now is there, unless the database cannot write it. `method`: a gRPC path, the name of a method alone, or words of the command line. Throws validation_failed. */
  async list(organizationId: string, wanted: Omit<AuditFilter, 'methods'> & { readonly method: string | undefined }, size: number | undefined, token: string, signal: AbortSignal): Promise<{ events: readonly AuditEvent[]; nextPageToken: string }> {
    const { cursors, trail, database } = this.deps;
    const { method, ...others } = wanted;
    const filter: AuditFilter = { ...others, methods: method === undefined ? undefined : this.methodsOf(method) };
    const list = ['audit-events', organizationId, JSON.stringify([wanted.from, wanted.to, wanted.keyId, wanted.userId, method, wanted.resource, wanted.outcome, wanted.requestId])];
    let position = cursors.decode<AuditPosition>(list, token, 'pageToken');
    // Where nothing can be written, what is sealed can be read all the same: a full disk hides no trail. The log says what waits.
    await trail.flush().catch(() => {});
    const most = pageSize(size);
    const events: AuditEvent[] = [];
    const repository = new AuditListRepository(database.db);
    do {
      signal.throwIfAborted();
      const found = await repository.find(organizationId, filter, position, most + 1 - events.length, LOOKS);
      events.push(...found.events);
      position = found.stopped;
      await new Promise((resolve) => setImmediate(resolve)); // others have their turn
    } while (position && events.length <= most);
    const last = events.length > most ? events[most - 1] : undefined;
    return { events: events.slice(0, most), nextPageToken: last ? cursors.encode(list, { at: last.at, seq: last.seq }) : '' };
  }

  private methodsOf(name: string): readonly string[] {
    return name.includes('/') ? [name] : this.deps.methodsNamed(name);
  }
}
