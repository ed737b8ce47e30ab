import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Db, HotStatement, SqlValue } from '../../database';
import { notFound } from '../../kernel/errors';
import type { Execution, ExecutionLogEntry } from '../execution';
import { type ExecutionRow, PROGRESS_COLUMNS, SUBMISSION_COLUMNS, executionFromRow, valuesOf } from './executionRow';
import { openStatements, PORTION } from './openStatements';
import { logStatement, MOST_LOGGED, MOST_READ, readStatement, statements, updateStatement } from './executionStatements';

/** An event that is not in the log yet. */
export type NewLogEntry = Omit<ExecutionLogEntry, 'position'>;

/** An execution that changed: as it was read (its version), as it is to be, and what is to be logged. */
export interface StoredChange {
  readonly before: Execution;
  readonly after: Execution;
  readonly entries: readonly NewLogEntry[];
}

/** Executions and their event log, to work with; what is shown of them comes from ExecutionViewRepository. Assumes validated input and a caller allowed to act in `organizationId`. */
export class ExecutionRepository {
  constructor(private readonly db: Db) {}

  /** Throws `execution_not_found`. */
  async get(organizationId: string, id: string): Promise<Execution> {
    const execution = await this.find(organizationId, id);
    if (!execution) throw notFound('execution', id);
    return execution;
  }

  async find(organizationId: string, id: string): Promise<Execution | undefined> {
    return await this.first(statements.get, [organizationId, id]);
  }

  /** Those of these executions that exist, by id. */
  async findAll(organizationId: string, ids: readonly string[]): Promise<Map<string, Execution>> {
    const found = new Map<string, Execution>();
    const wanted = [...new Set(ids)];
    for (let start = 0; start < wanted.length; start += MOST_READ) {
      const some = wanted.slice(start, start + MOST_READ);
      const { statement, size } = readStatement(some.length);
      const unneeded = Array.from({ length: size - some.length }, () => some[0] ?? '');
      for (const execution of await this.many(statement, [organizationId, ...some, ...unneeded])) found.set(execution.id, execution);
    }
    return found;
  }

  /** The execution that this trigger id of the caller made, while it is remembered. */
  async findByTrigger(organizationId: string, deviceId: string, commandId: string, triggerKey: string): Promise<Execution | undefined> {
    return await this.first(statements.byTrigger, [organizationId, deviceId, commandId, triggerKey]);
  }

  /** Forgets the trigger id of an execution, so that it may be used anew. */
  async forgetTrigger(organizationId: string, id: string): Promise<void> {
    await this.db.all(statements.forgetTrigger, [organizationId, id]);
  }

  /** The execution of a device that is not final and has this dedupe key. */
  async findDuplicate(organizationId: string, deviceId: string, dedupeKey: string): Promise<Execution | undefined> {
    return await this.first(statements.duplicate, [organizationId, deviceId, dedupeKey]);
  }

  /** How many executions of a device are enqueued or in transit (`undelivered`), and delivered or accepted (`verifying`: every uplink is held against them); queries do not count. */
  async countOpen(organizationId: string, deviceId: string): Promise<{ readonly undelivered: number; readonly verifying: number }> {
    const [row] = await this.db.all<{ undelivered: number; verifying: number }>(openStatements.openCounts, [organizationId, deviceId]);
    return row ?? { undelivered: 0, verifying: 0 };
  }

  /** The executions of a connection that are in transit, in pages: `after` is the id of the last one of the page before. */
  async inTransit(organizationId: string, connectionId: string, after: string, limit: number): Promise<Execution[]> {
    return await this.many(statements.inTransit, [organizationId, connectionId, after, limit]);
  }

  /** The next execution of a physical device; undefined if its queue is empty or its slot is taken. */
  async head(organizationId: string, connectionId: string, physicalDeviceId: string): Promise<Execution | undefined> {
    return await this.first(statements.head, [organizationId, connectionId, physicalDeviceId]);
  }

  /** Whether an execution holds the slot of a physical device. */
  async isSlotTaken(organizationId: string, physicalDeviceId: string): Promise<boolean> {
    return (await this.db.all(statements.slot, [organizationId, physicalDeviceId])).length > 0;
  }

  /** The physical devices of a connection that have a queue, those that wait longest first. */
  async queues(organizationId: string, connectionId: string): Promise<string[]> {
    const rows = await this.db.all<{ physical_device_id: string }>(statements.queues, [organizationId, connectionId]);
    return rows.map((row) => row.physical_device_id);
  }

  /** Reads it and keeps it as it is to the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<Execution | undefined> {
    return await this.first(statements.lock, [organizationId, id]);
  }

  /** The queries of an execution: its tries so far. */
  async queriesOf(organizationId: string, parentExecutionId: string): Promise<Execution[]> {
    return await this.many(statements.queriesOf, [organizationId, parentExecutionId]);
  }

  /** The executions of a device that stand before this one in its queue's order and are delivered or accepted, in that order; without params, payload and query. */
  async verifyingBefore(organizationId: string, deviceId: string, id: string): Promise<Execution[]> {
    return await this.many(openStatements.verifyingBefore, [organizationId, deviceId, organizationId, id]);
  }

  /** The ids of the executions of a physical device that an uplink may settle, in the order of its queue: in transit, delivered or accepted. */
  async awaitingUplink(organizationId: string, deviceId: string, physicalDeviceId: string): Promise<string[]> {
    const rows = await this.db.all<{ id: string }>(openStatements.awaitingUplink, [organizationId, deviceId, physicalDeviceId]);
    return rows.map((row) => row.id);
  }

  /** The execution that holds the slot of a device in the field, as the connection knows it: the one that the transport has; undefined: none does. */
  async findSlotHolder(organizationId: string, connectionId: string, clientDeviceId: string): Promise<string | undefined> {
    const [row] = await this.db.all<{ id: string }>(openStatements.slotHolderOfDevice, [organizationId, connectionId, clientDeviceId]);
    return row?.id;
  }

  /** Those of these executions that exist, in the order of their queue, a portion at a time with a turn for others between; without params, payload and query. */
  async toSettle(organizationId: string, ids: readonly string[]): Promise<Execution[]> {
    const found: Execution[] = [];
    for (let start = 0; start < ids.length; start += PORTION) {
      if (start > 0) await othersTurn();
      const some = ids.slice(start, start + PORTION);
      const unneeded = Array.from({ length: PORTION - some.length }, () => some[0] ?? '');
      found.push(...(await this.many(openStatements.toSettle, [organizationId, ...some, ...unneeded])));
    }
    return found;
  }

  /** Adds an execution with its first event. Its place in the queue is the event's position. Only inside a transaction. */
  async create(execution: Execution, dedupeKey: string | undefined, entry: NewLogEntry): Promise<void> {
    const position = await this.takePositions(execution.organizationId, 1);
    await this.insert(execution, dedupeKey, position);
    await this.logFrom(execution.organizationId, position, [entry]);
  }

  /** Adds an execution that asks for another one: at the place of that one, so before all that waits. Its events are not logged yet. */
  async insertQuery(execution: Execution): Promise<void> {
    const [place] = await this.db.all<{ queue_order: number }>(statements.place, [execution.organizationId, execution.parentExecutionId ?? '']);
    await this.insert(execution, undefined, place?.queue_order ?? 0);
  }

  /**
   * Stores changes that are based on what was read; all are of one organization. Others get a turn after each portion. Returns those that
   * were stored: the others were changed meanwhile. Their events are not logged yet. Only inside a transaction.
   */
  async replace<Change extends StoredChange>(organizationId: string, changes: readonly Change[]): Promise<Change[]> {
    const stored: Change[] = [];
    for (const [at, change] of changes.entries()) {
      if (at > 0 && at % PORTION === 0) await othersTurn();
      const { before, after } = change;
      const changed = PROGRESS_COLUMNS.filter(([, valueOf]) => valueOf(before) !== valueOf(after));
      const rows = await this.db.all(updateStatement(changed), [...valuesOf(changed, after), organizationId, after.id, before.version]);
      if (rows.length > 0) stored.push(change);
    }
    return stored;
  }

  /** Adds events to the organization's log, in this order. Only inside a transaction. */
  async log(organizationId: string, entries: readonly NewLogEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const end = await this.takePositions(organizationId, entries.length);
    await this.logFrom(organizationId, end - entries.length + 1, entries);
  }

  private async insert(execution: Execution, dedupeKey: string | undefined, queueOrder: number): Promise<void> {
    await this.db.all(statements.insert, [...valuesOf(SUBMISSION_COLUMNS, execution), ...valuesOf(PROGRESS_COLUMNS, execution), dedupeKey ?? null, queueOrder]);
  }

  /** The last of `count` new positions in the organization's log. */
  private async takePositions(organizationId: string, count: number): Promise<number> {
    const [row] = await this.db.all<{ value: number }>(statements.takePositions, [organizationId, count]);
    if (!row) throw new Error('the counter of execution events gave no position');
    return row.value;
  }

  private async logFrom(organizationId: string, position: number, entries: readonly NewLogEntry[]): Promise<void> {
    for (let first = 0; first < entries.length; first += MOST_LOGGED) {
      const rows = entries.slice(first, first + MOST_LOGGED).map((entry, at) => eventValues(organizationId, position + first + at, entry));
      await this.db.all(logStatement(rows.length), rows.flat());
    }
  }

  private async first(statement: HotStatement, values: readonly SqlValue[]): Promise<Execution | undefined> {
    const [row] = await this.db.all<ExecutionRow>(statement, values);
    return row && executionFromRow(row);
  }

  private async many(statement: HotStatement, values: readonly SqlValue[]): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statement, values)).map(executionFromRow);
  }
}

/** In the order of the columns of the statement. */
function eventValues(organizationId: string, position: number, { executionId, deviceId, sequence, time, layer, event, from, to, source, data }: NewLogEntry): SqlValue[] {
  return [organizationId, position, executionId, deviceId, sequence, time, layer, event, from ?? null, to, source, JSON.stringify(data)];
}
