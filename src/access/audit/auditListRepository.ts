import type { Db } from '../../database';
import { subjectOf, type AuditActor, type AuditEvent, type AuditOutcome } from './auditEvent';
import type { AuditRow } from './auditRepository';

/** Which events are wanted; what is undefined does not filter. */
export interface AuditFilter {
  /** Not before, Unix milliseconds. */
  readonly from: number | undefined;
  /** Before. */
  readonly to: number | undefined;
  readonly keyId: string | undefined;
  readonly userId: string | undefined;
  /** Any of these methods. */
  readonly methods: readonly string[] | undefined;
  /** This one and what lies below it. */
  readonly resource: string | undefined;
  readonly outcome: AuditOutcome | undefined;
  readonly requestId: string | undefined;
}

/** Where a reader of a chain stands; events are read from the newest beginning to the oldest. */
export interface AuditPosition {
  readonly at: number;
  readonly seq: number;
}

/** What one look found. */
export interface AuditFound {
  readonly events: readonly AuditEvent[];
  /** Where it stopped looking; undefined: there is nothing older. */
  readonly stopped: AuditPosition | undefined;
}

const NEWEST_FIRST = ['at', 'seq'].map((column) => ({ column: `e.${column}`, order: 'desc' as const }));

/** Reads the events of a chain by filters. */
export class AuditListRepository {
  constructor(private readonly db: Db) {}

  /**
   * At most `limit` events before a position, of the next `looks` that its index leads to: what fits seldom does not hold up the process,
   * the caller asks again.
   */
  async find(chain: string, filter: AuditFilter, before: AuditPosition | undefined, limit: number, looks: number): Promise<AuditFound> {
    const looked = this.led(chain, filter, before).orderBy(NEWEST_FIRST).limit(looks).select('e.*');
    const fitting = this.db.knex.from(looked.as('e')).orderBy(NEWEST_FIRST).limit(limit);
    // What stands outside the ends of the chain is no part of it: about to be removed, or put there by somebody.
    fitting.whereRaw('e.seq between coalesce((select first_seq from audit_chains where chain = ?), e.seq) and coalesce((select last_seq from audit_chains where chain = ?), e.seq)', [chain, chain]);
    fitting.where(equals(filter));
    if (filter.methods) fitting.whereIn('e.method', [...filter.methods]);
    if (filter.resource !== undefined) fitting.whereRaw('(e.resource = ? or substr(e.resource, 1, ?) = ?)', [filter.resource, filter.resource.length + 1, `${filter.resource}/`]);
    const rows = await fitting.select<AuditRow[]>('e.*');
    const events = rows.map(auditEventFromRow);
    if (events.length === limit) return { events, stopped: events.at(-1) };
    const last = await this.led(chain, filter, before).orderBy(NEWEST_FIRST).offset(looks - 1).first<AuditPosition | undefined>('e.at', 'e.seq');
    return { events, stopped: last };
  }

  /** What its index leads to, before a position and within the time that is asked for. */
  private led(chain: string, filter: AuditFilter, before: AuditPosition | undefined) {
    const query = this.byIndex(chain, filter);
    if (before) query.whereRaw('(e.at, e.seq) < (?, ?)', [before.at, before.seq]);
    if (filter.from !== undefined) query.where('e.at', '>=', filter.from);
    if (filter.to !== undefined) query.where('e.at', '<', filter.to);
    return query;
  }

  /** By the index that leads to the fewest. */
  private byIndex(chain: string, { keyId, userId, methods, resource, outcome, requestId }: AuditFilter) {
    const query = this.db.knex('audit_events as e').where('e.chain', chain);
    const subject = resource === undefined ? '' : subjectOf(resource);
    if (requestId !== undefined) return query.where('e.request_id', requestId);
    if (subject.includes('/')) return query.where('e.subject', subject);
    if (keyId !== undefined) return query.where('e.key_id', keyId);
    if (userId !== undefined) return query.where('e.user_id', userId);
    if (methods?.length === 1) return query.where('e.method', methods[0] as string);
    if (outcome !== undefined) return query.where('e.outcome', outcome);
    return query;
  }
}

function equals({ keyId, userId, outcome, requestId }: AuditFilter): Record<string, string> {
  const wanted = { 'e.key_id': keyId, 'e.user_id': userId, 'e.outcome': outcome, 'e.request_id': requestId };
  return Object.fromEntries(Object.entries(wanted).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/** The event that a row holds. */
export function auditEventFromRow(row: AuditRow): AuditEvent {
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
    fields: fieldsIn(row.fields),
    outcome: row.outcome as AuditOutcome,
    reason: row.reason,
    requestId: row.request_id,
    count: row.count,
    hash: row.hash,
  };
}

/** Never throws: a row that somebody spoilt keeps no others from being read; to find it is the work of verifying. */
function fieldsIn(text: string): string[] {
  try {
    const fields: unknown = JSON.parse(text);
    return Array.isArray(fields) ? fields.map(String) : [];
  } catch {
    return [];
  }
}
