import type { Db, PreparedStatement, SqlValue } from '../../database';
import {
  EMPTY_CHAIN,
  computeEventHash,
  getSubjectResource,
  type AuditDetails,
  type AuditSubject,
  type ChainEnds,
  type HashedColumns,
} from './auditEvent';

/** An event as stored in the table. */
export interface AuditRow extends HashedColumns {
  /** The first two segments of the resource. */
  readonly subject: string;
  readonly hash: string;
}

/** A change that has started and whose outcome is not in its chain yet. */
export interface PendingChange {
  readonly subject: AuditSubject;
  /** The id of the process that will record the outcome. */
  readonly processId: string;
}

const COLUMNS = [
  'chain',
  'seq',
  'id',
  'at',
  'actor',
  'key_id',
  'key_prefix',
  'user_id',
  'peer',
  'method',
  'resource',
  'subject',
  'fields',
  'outcome',
  'reason',
  'request_id',
  'count',
  'hash',
] as const;
/** `run`: the id of the process; `event`: the subject as JSON. */
const PENDING_COLUMNS = ['id', 'chain', 'run', 'at', 'event'] as const;
/** The numbers of rows per statement, in descending order. A statement is prepared for each, so that it is reused. */
const STATEMENT_SIZES = [32, 8, 1];

const LOCK_CHAIN: PreparedStatement = {
  name: 'audit.lock',
  sql: (dialect) =>
    `select first_seq, first_previous, last_seq, last_hash from audit_chains where chain = ? ${dialect.forUpdate}`,
};
const MOVE_CHAIN_END: PreparedStatement = {
  name: 'audit.move',
  sql: () => 'update audit_chains set last_seq = ?, last_hash = ? where chain = ?',
};
const INSERT_EVENTS = prepareBySize(
  'audit.insert',
  (rows) => `insert into audit_events (${COLUMNS.join(', ')}) values ${formatTuples(rows, COLUMNS.length)}`,
);
const INSERT_PENDING = prepareBySize(
  'audit.begin',
  (rows) =>
    `insert into audit_pending (${PENDING_COLUMNS.join(', ')}) values ${formatTuples(rows, PENDING_COLUMNS.length)}`,
);
const DELETE_PENDING = prepareBySize(
  'audit.end',
  (rows) => `delete from audit_pending where id in (${formatPlaceholders(rows)}) returning id`,
);

/**
 * Reads and writes the audit trail: events in chains, and pending changes. A chain is the trail of one organization or
 * of the installation. The hash of each event covers the event before it; `audit_chains` stores the first and last
 * event.
 */
export class AuditRepository {
  constructor(private readonly db: Db) {}

  /** Stores changes that are about to start. */
  async insertPendingChanges(changes: readonly PendingChange[]): Promise<void> {
    const rows = changes.map(({ subject, processId }) => [
      subject.id,
      subject.chain,
      processId,
      subject.at,
      JSON.stringify(subject),
    ]);
    for (const part of splitBySize(rows)) await this.db.all(INSERT_PENDING(part.length), part.flat());
  }

  /** Deletes pending changes; returns the ids of those that existed. */
  async deletePendingChanges(ids: readonly string[]): Promise<Set<string>> {
    const deletedIds = new Set<string>();
    for (const part of splitBySize(ids))
      for (const { id } of await this.db.all<{ id: string }>(DELETE_PENDING(part.length), part)) deletedIds.add(id);
    return deletedIds;
  }

  /**
   * Returns at most `limit` pending changes whose process has ended: those of other servers, and those of commands that
   * started before `commandsBefore` (Unix milliseconds). `serverId`: the process id of this server. The ids of servers
   * start with `server:`.
   */
  async findAbandoned(serverId: string, commandsBefore: number, limit: number): Promise<AuditSubject[]> {
    const query = this.db
      .knex('audit_pending')
      .whereNot({ run: serverId })
      .where((where) => void where.whereLike('run', 'server:%').orWhere('at', '<', commandsBefore));
    const rows = await query.orderBy('id').limit(limit).select<{ event: string }[]>('event');
    return rows.map(({ event }) => JSON.parse(event) as AuditSubject);
  }

  /** Returns those of the ids that are in a chain. */
  async findExistingIds(ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.db
      .knex('audit_events')
      .whereIn('id', [...ids])
      .select<{ id: string }[]>('id');
    return new Set(rows.map(({ id }) => id));
  }

  /** Locks a chain until the end of the transaction and returns its ends. Creates it if it does not exist. */
  async lockChain(chain: string): Promise<ChainEnds> {
    return (await this.lockExisting(chain)) ?? (await this.createChain(chain));
  }

  /** Appends events to a locked chain; returns its new ends. */
  async appendEvents(chain: string, ends: ChainEnds, events: readonly AuditDetails[]): Promise<ChainEnds> {
    if (events.length === 0) return ends;
    let { lastSeq, lastHash } = ends;
    const rows = events.map((event) => {
      lastSeq += 1;
      const row = toRow(event, lastSeq, lastHash);
      lastHash = row.hash;
      return COLUMNS.map((column): SqlValue => row[column]);
    });
    for (const part of splitBySize(rows)) await this.db.all(INSERT_EVENTS(part.length), part.flat());
    await this.db.all(MOVE_CHAIN_END, [lastSeq, lastHash, chain]);
    return { ...ends, lastSeq, lastHash };
  }

  /** Creates an empty chain and locks it. If another transaction created the chain at the same time, locks that one. */
  private async createChain(chain: string): Promise<ChainEnds> {
    const { firstSeq: first_seq, firstPrevious: first_previous, lastSeq: last_seq, lastHash: last_hash } = EMPTY_CHAIN;
    await this.db
      .knex('audit_chains')
      .insert({ chain, first_seq, first_previous, last_seq, last_hash })
      .onConflict('chain')
      .ignore();
    return (await this.lockExisting(chain)) ?? EMPTY_CHAIN; // another transaction may have created it
  }

  /** Locks the row of a chain and returns its ends; undefined if the chain does not exist. */
  private async lockExisting(chain: string): Promise<ChainEnds | undefined> {
    const [row] = await this.db.all<{ first_seq: number; first_previous: string; last_seq: number; last_hash: string }>(
      LOCK_CHAIN,
      [chain],
    );
    return (
      row && {
        firstSeq: row.first_seq,
        firstPrevious: row.first_previous,
        lastSeq: row.last_seq,
        lastHash: row.last_hash,
      }
    );
  }
}

/** Returns the table row of an event at position `seq`. */
function toRow(event: AuditDetails, seq: number, previousHash: string): AuditRow {
  const { chain, id, at, actor, keyId, keyPrefix, userId, peer, method, resource, outcome, reason, requestId, count } =
    event;
  const columns = {
    chain,
    seq,
    id,
    at,
    actor,
    key_id: keyId ?? null,
    key_prefix: keyPrefix,
    user_id: userId ?? null,
    peer,
    method,
    resource,
    fields: JSON.stringify(event.fields),
    outcome,
    reason,
    request_id: requestId,
    count,
  };
  return { ...columns, subject: getSubjectResource(resource), hash: computeEventHash(previousHash, columns) };
}

/**
 * Returns a function that returns the prepared statement for a number of rows, which must be one of
 * STATEMENT_SIZES.
 */
function prepareBySize(name: string, sql: (rows: number) => string): (rows: number) => PreparedStatement {
  const statements = new Map(STATEMENT_SIZES.map((rows) => [rows, { name: `${name}.${rows}`, sql: () => sql(rows) }]));
  return (rows) => statements.get(rows) as PreparedStatement;
}

const formatPlaceholders = (count: number): string => Array.from({ length: count }, () => '?').join(', ');
const formatTuples = (rows: number, columns: number): string =>
  Array.from({ length: rows }, () => `(${formatPlaceholders(columns)})`).join(', ');

/** Splits a list into parts whose lengths are the prepared sizes: 41 items become 32, 8 and 1. */
function* splitBySize<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  let start = 0;
  for (const size of STATEMENT_SIZES) {
    while (items.length - start >= size) {
      yield items.slice(start, start + size);
      start += size;
    }
  }
}
