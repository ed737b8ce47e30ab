import type { Db } from '../../database';
import { getSubjectResource, type AuditActor, type AuditEvent, type AuditOutcome } from './auditEvent';
import type { AuditRow } from './auditRepository';

/** A filter of events; undefined fields do not filter. */
export interface AuditFilter {
  /** The earliest time, Unix milliseconds. */
  readonly from: number | undefined;
  /** The end of the time range (exclusive), Unix milliseconds. */
  readonly to: number | undefined;
  readonly keyId: string | undefined;
  readonly userId: string | undefined;
  /** Events with one of these methods. */
  readonly methods: readonly string[] | undefined;
  /** This resource and the resources below it. */
  readonly resource: string | undefined;
  readonly outcome: AuditOutcome | undefined;
  readonly requestId: string | undefined;
}

/** A position in a list of events, which is sorted by start time, newest first. */
export interface AuditPosition {
  readonly at: number;
  readonly seq: number;
}

/** The result of one query. */
interface AuditFound {
  readonly events: readonly AuditEvent[];
  /** The position where the query stopped; undefined if there are no older events. */
  readonly nextPosition: AuditPosition | undefined;
}

const NEWEST_FIRST = ['at', 'seq'].map((column) => ({ column: `e.${column}`, order: 'desc' as const }));

/** Lists the events of a chain by filter. */
export class AuditListRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns at most `limit` matching events before a position. It scans at most `maxScanned` events of the index, so
   * that a filter with few matches does not block the process; the caller then continues from the returned position.
   */
  async find(
    chain: string,
    filter: AuditFilter,
    before: AuditPosition | undefined,
    limit: number,
    maxScanned: number,
  ): Promise<AuditFound> {
    const scannedEvents = this.queryRange(chain, filter, before).orderBy(NEWEST_FIRST).limit(maxScanned).select('e.*');
    const matchingEvents = this.db.knex.from(scannedEvents.as('e')).orderBy(NEWEST_FIRST).limit(limit);
    // Events outside the ends of the chain are not part of it: they are about to be deleted, or somebody inserted them.
    // If no ends are stored, coalesce compares each number with itself, so that every event matches.
    matchingEvents.whereRaw(
      'e.seq between coalesce((select first_seq from audit_chains where chain = ?), e.seq) and coalesce((select last_seq from audit_chains where chain = ?), e.seq)',
      [chain, chain],
    );
    matchingEvents.where(buildEqualities(filter));
    if (filter.methods) matchingEvents.whereIn('e.method', [...filter.methods]);
    if (filter.resource !== undefined)
      matchingEvents.whereRaw('(e.resource = ? or substr(e.resource, 1, ?) = ?)', [
        filter.resource,
        filter.resource.length + 1,
        `${filter.resource}/`,
      ]);
    const rows = await matchingEvents.select<AuditRow[]>('e.*');
    const events = rows.map(auditEventFromRow);
    if (events.length === limit) return { events, nextPosition: events.at(-1) };
    // Fewer matches than `limit`: the range has older events only if it contains `maxScanned` events. The search then
    // continues after the last one that was scanned.
    const lastScanned = await this.queryRange(chain, filter, before)
      .orderBy(NEWEST_FIRST)
      .offset(maxScanned - 1)
      .first<AuditPosition | undefined>('e.at', 'e.seq');
    return { events, nextPosition: lastScanned };
  }

  /** Selects the events that the most selective index finds, before a position and within the time range. */
  private queryRange(chain: string, filter: AuditFilter, before: AuditPosition | undefined) {
    const query = this.queryByIndex(chain, filter);
    if (before) query.whereRaw('(e.at, e.seq) < (?, ?)', [before.at, before.seq]);
    if (filter.from !== undefined) query.where('e.at', '>=', filter.from);
    if (filter.to !== undefined) query.where('e.at', '<', filter.to);
    return query;
  }

  /**
   * Selects the events of a chain by the filter whose index contains the fewest events: a request id is more selective
   * than a resource, a resource more than a key, and so on. A resource without an id (no slash) is a whole collection,
   * which does not narrow the search.
   */
  private queryByIndex(chain: string, { keyId, userId, methods, resource, outcome, requestId }: AuditFilter) {
    const query = this.db.knex('audit_events as e').where('e.chain', chain);
    const subject = resource === undefined ? '' : getSubjectResource(resource);
    if (requestId !== undefined) return query.where('e.request_id', requestId);
    if (subject.includes('/')) return query.where('e.subject', subject);
    if (keyId !== undefined) return query.where('e.key_id', keyId);
    if (userId !== undefined) return query.where('e.user_id', userId);
    if (methods?.length === 1) return query.where('e.method', methods[0] as string);
    if (outcome !== undefined) return query.where('e.outcome', outcome);
    return query;
  }
}

/** Returns the column values that the filter compares with `=`; columns without a filter are omitted. */
function buildEqualities({ keyId, userId, outcome, requestId }: AuditFilter): Record<string, string> {
  const columns = { 'e.key_id': keyId, 'e.user_id': userId, 'e.outcome': outcome, 'e.request_id': requestId };
  return Object.fromEntries(
    Object.entries(columns).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** Converts a row to an event. */
function auditEventFromRow(row: AuditRow): AuditEvent {
  return {
    id: row.id,
    chain: row.chain,
    seq: row.seq,
    at: row.at,
    actor: row.actor as AuditActor,
    keyId: row.key_id ?? undefined,
    keyPrefix: row.key_prefix,
    userId: row.user_id ?? undefined,
    peer: row.peer,
    method: row.method,
    resource: row.resource,
    fields: parseFields(row.fields),
    outcome: row.outcome as AuditOutcome,
    reason: row.reason,
    requestId: row.request_id,
    count: row.count,
    hash: row.hash,
  };
}

/** Never throws: a manipulated row must not prevent reading the others. Verification reports it. */
function parseFields(text: string): string[] {
  try {
    const fields: unknown = JSON.parse(text);
    return Array.isArray(fields) ? fields.map(String) : [];
  } catch {
    return [];
  }
}
