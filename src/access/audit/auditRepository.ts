import type { Db, HotStatement, SqlValue } from '../../database';
import { EMPTY_CHAIN, eventHash, subjectOf, type AuditFacts, type AuditSubject, type ChainEnds, type HashedColumns } from './auditEvent';

/** An event as its table holds it. */
export interface AuditRow extends HashedColumns {
  /** The first two steps of the resource. */
  readonly subject: string;
  readonly hash: string;
}

/** A change that has begun and whose end is not in its chain yet. */
export interface PendingChange {
  readonly subject: AuditSubject;
  /** The process that will tell how it ended. */
  readonly run: string;
}

const COLUMNS = ['chain', 'seq', 'id', 'at', 'actor', 'key_id', 'key_prefix', 'user_id', 'peer', 'method', 'resource', 'subject', 'fields', 'outcome', 'reason', 'request_id', 'count', 'hash'] as const;
const PENDING_COLUMNS = ['id', 'chain', 'run', 'at', 'event'] as const;
/** Rows of one statement; each size is prepared once. */
const SIZES = [32, 8, 1];

const LOCK: HotStatement = {
  name: 'audit.lock',
  sql: (dialect) => `select first_seq, first_previous, last_seq, last_hash from audit_chains where chain = ? ${dialect.forUpdate}`,
};
const MOVE: HotStatement = { name: 'audit.move', sql: () => 'update audit_chains set last_seq = ?, last_hash = ? where chain = ?' };
const INSERT_EVENTS = sized('audit.insert', (rows) => `insert into audit_events (${COLUMNS.join(', ')}) values ${tuples(rows, COLUMNS.length)}`);
const INSERT_PENDING = sized('audit.begin', (rows) => `insert into audit_pending (${PENDING_COLUMNS.join(', ')}) values ${tuples(rows, PENDING_COLUMNS.length)}`);
const END_PENDING = sized('audit.end', (rows) => `delete from audit_pending where id in (${marks(rows)}) returning id`);

/** The audit trail: events in chains, and changes that have begun. */
export class AuditRepository {
  constructor(private readonly db: Db) {}

  /** Writes down changes that are about to begin. */
  async begin(changes: readonly PendingChange[]): Promise<void> {
    const rows = changes.map(({ subject, run }) => [subject.id, subject.chain, run, subject.at, JSON.stringify(subject)]);
    for (const part of parts(rows)) await this.db.all(INSERT_PENDING(part.length), part.flat());
  }

  /** Forgets that changes have begun; tells which of them still were. */
  async endPending(ids: readonly string[]): Promise<Set<string>> {
    const ended = new Set<string>();
    for (const part of parts(ids)) for (const { id } of await this.db.all<{ id: string }>(END_PENDING(part.length), part)) ended.add(id);
    return ended;
  }

  /** At most `limit` changes that the server `run` does not know: those of servers before it, and of commands that began before `commandsBefore`. */
  async abandoned(run: string, commandsBefore: number, limit: number): Promise<AuditSubject[]> {
    const query = this.db.knex('audit_pending').whereNot({ run }).where((where) => void where.whereLike('run', 'server:%').orWhere('at', '<', commandsBefore));
    const rows = await query.orderBy('id').limit(limit).select<{ event: string }[]>('event');
    return rows.map(({ event }) => JSON.parse(event) as AuditSubject);
  }

  /** Those of the ids that are in a chain. */
  async known(ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.db.knex('audit_events').whereIn('id', [...ids]).select<{ id: string }[]>('id');
    return new Set(rows.map(({ id }) => id));
  }

  /** The ends of a chain, which nobody else moves until the transaction is over. Makes one that is not there. */
  async lock(chain: string): Promise<ChainEnds> {
    return (await this.lockIfThere(chain)) ?? (await this.open(chain));
  }

  /** Appends events to a chain that was locked; returns its new ends. */
  async append(chain: string, ends: ChainEnds, events: readonly AuditFacts[]): Promise<ChainEnds> {
    if (events.length === 0) return ends;
    let { lastSeq, lastHash } = ends;
    const rows = events.map((event) => {
      const row = rowOf(event, (lastSeq += 1), lastHash);
      lastHash = row.hash;
      return COLUMNS.map((column): SqlValue => row[column]);
    });
    for (const part of parts(rows)) await this.db.all(INSERT_EVENTS(part.length), part.flat());
    await this.db.all(MOVE, [lastSeq, lastHash, chain]);
    return { ...ends, lastSeq, lastHash };
  }

  private async open(chain: string): Promise<ChainEnds> {
    const { firstSeq: first_seq, firstPrevious: first_previous, lastSeq: last_seq, lastHash: last_hash } = EMPTY_CHAIN;
    await this.db.knex('audit_chains').insert({ chain, first_seq, first_previous, last_seq, last_hash }).onConflict('chain').ignore();
    return (await this.lockIfThere(chain)) ?? EMPTY_CHAIN; // somebody may have made it meanwhile
  }

  private async lockIfThere(chain: string): Promise<ChainEnds | undefined> {
    const [row] = await this.db.all<{ first_seq: number; first_previous: string; last_seq: number; last_hash: string }>(LOCK, [chain]);
    return row && { firstSeq: row.first_seq, firstPrevious: row.first_previous, lastSeq: row.last_seq, lastHash: row.last_hash };
  }
}

function rowOf(event: AuditFacts, seq: number, previous: string): AuditRow {
  const { chain, id, at, actor, keyId, keyPrefix, userId, peer, method, resource, outcome, reason, requestId, count } = event;
  const columns = { chain, seq, id, at, actor, key_id: keyId ?? null, key_prefix: keyPrefix, user_id: userId ?? null, peer, method, resource, fields: JSON.stringify(event.fields), outcome, reason, request_id: requestId, count };
  return { ...columns, subject: subjectOf(resource), hash: eventHash(previous, columns) };
}

function sized(name: string, sql: (rows: number) => string): (rows: number) => HotStatement {
  const made = new Map(SIZES.map((rows) => [rows, { name: `${name}.${rows}`, sql: () => sql(rows) }]));
  return (rows) => made.get(rows) as HotStatement;
}

const marks = (count: number): string => Array.from({ length: count }, () => '?').join(', ');
const tuples = (rows: number, columns: number): string => Array.from({ length: rows }, () => `(${marks(columns)})`).join(', ');

/** Cuts a list into parts of the sizes for which there is a statement. */
function* parts<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  let at = 0;
  for (const size of SIZES) for (; items.length - at >= size; at += size) yield items.slice(at, at + size);
}
