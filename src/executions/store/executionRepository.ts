import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Db, PreparedStatement, SqlValue } from '../../database';
import { notFound } from '../../kernel/errors';
import type { Execution, ExecutionLogEntry, ExpectedValue } from '../execution';
import { type ExecutionRow, PROGRESS_COLUMNS, SUBMISSION_COLUMNS, executionFromRow, listValues } from './executionRow';
import { openStatements, EXECUTION_BATCH_SIZE } from './openStatements';
import {
  getLogStatement,
  MAX_LOGGED_EVENTS,
  READ_BATCH_SIZE,
  getReadStatement,
  statements,
  getUpdateStatement,
} from './executionStatements';

/** An event that is not logged yet. */
export type NewLogEntry = Omit<ExecutionLogEntry, 'position'>;

/** An execution that a new request may duplicate. */
export interface DuplicateCandidate extends Pick<Execution, 'id' | 'commandId' | 'expected'> {
  readonly dedupeKey: string;
}

interface CandidateRow {
  readonly id: string;
  readonly command_id: string | null;
  readonly dedupe_key: string;
  readonly expected: string;
}

/** A changed execution: as read (with its version), its new values, and the events to log. */
export interface StoredChange {
  readonly before: Execution;
  readonly after: Execution;
  readonly entries: readonly NewLogEntry[];
}

/**
 * Reads and writes executions and their event log for processing; ExecutionViewRepository reads them for display. An
 * execution occupies the slot of its physical device while its command or query is on its way, so that the device
 * receives one command at a time. Assumes validated input and a caller who may act in `organizationId`.
 */
export class ExecutionRepository {
  constructor(private readonly db: Db) {}

  /** Throws `execution_not_found`. */
  async get(organizationId: string, id: string): Promise<Execution> {
    const execution = await this.find(organizationId, id);
    if (!execution) throw notFound('execution', id);
    return execution;
  }

  /** Returns undefined if the execution does not exist. */
  async find(organizationId: string, id: string): Promise<Execution | undefined> {
    return await this.readOne(statements.get, [organizationId, id]);
  }

  /** Returns the existing executions of these ids, by id. */
  async findAll(organizationId: string, ids: readonly string[]): Promise<Map<string, Execution>> {
    const found = new Map<string, Execution>();
    const distinctIds = [...new Set(ids)];
    for (let start = 0; start < distinctIds.length; start += READ_BATCH_SIZE) {
      const batch = distinctIds.slice(start, start + READ_BATCH_SIZE);
      const { statement, size } = getReadStatement(batch.length);
      const padding = Array.from({ length: size - batch.length }, () => batch[0] ?? ''); // repeats the first id
      for (const execution of await this.readAll(statement, [organizationId, ...batch, ...padding]))
        found.set(execution.id, execution);
    }
    return found;
  }

  /**
   * Returns the executions of a device that a new request may duplicate: not final, and with a dedupe key (see
   * `clearDedupeKey`).
   */
  async listDuplicateCandidates(organizationId: string, deviceId: string): Promise<DuplicateCandidate[]> {
    const rows = await this.db.all<CandidateRow>(statements.duplicateCandidates, [organizationId, deviceId]);
    return rows.map((row) => ({
      id: row.id,
      commandId: row.command_id ?? undefined,
      dedupeKey: row.dedupe_key,
      expected: JSON.parse(row.expected) as ExpectedValue[],
    }));
  }

  /**
   * Clears the dedupe key, because a later request contradicts the execution: no further request is a duplicate of it.
   */
  async clearDedupeKey(organizationId: string, id: string): Promise<void> {
    await this.db.all(statements.clearDedupeKey, [organizationId, id]);
  }

  /**
   * Counts the executions of a device that are enqueued or in transit (`undelivered`), and those that are delivered or
   * accepted (`verifying`: compared with every uplink). The query commands that verify an execution do not count.
   */
  async countOpen(
    organizationId: string,
    deviceId: string,
  ): Promise<{ readonly undelivered: number; readonly verifying: number }> {
    const [row] = await this.db.all<{ undelivered: number; verifying: number }>(openStatements.openCounts, [
      organizationId,
      deviceId,
    ]);
    return row ?? { undelivered: 0, verifying: 0 };
  }

  /** Reads the executions in transit of a connection in pages: `after` is the last id of the previous page. */
  async listInTransit(
    organizationId: string,
    connectionId: string,
    after: string,
    limit: number,
  ): Promise<Execution[]> {
    return await this.readAll(statements.inTransit, [organizationId, connectionId, after, limit]);
  }

  /** Returns the next execution of a physical device; undefined if its queue is empty or its slot is occupied. */
  async findHead(
    organizationId: string,
    connectionId: string,
    physicalDeviceId: string,
  ): Promise<Execution | undefined> {
    return await this.readOne(statements.head, [organizationId, connectionId, physicalDeviceId]);
  }

  /** Whether an execution occupies the slot of a physical device. */
  async isSlotOccupied(organizationId: string, physicalDeviceId: string): Promise<boolean> {
    return (await this.db.all(statements.slot, [organizationId, physicalDeviceId])).length > 0;
  }

  /** Returns the physical devices of a connection with a non-empty queue, those that wait longest first. */
  async listDevicesWithQueue(organizationId: string, connectionId: string): Promise<string[]> {
    const rows = await this.db.all<{ physical_device_id: string }>(statements.queues, [organizationId, connectionId]);
    return rows.map((row) => row.physical_device_id);
  }

  /** Reads an execution and locks it until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<Execution | undefined> {
    return await this.readOne(statements.lock, [organizationId, id]);
  }

  /** Returns the executions of the query commands that were sent so far to verify an execution. */
  async listQueries(organizationId: string, parentExecutionId: string): Promise<Execution[]> {
    return await this.readAll(statements.queriesOf, [organizationId, parentExecutionId]);
  }

  /**
   * Returns the executions of a device that precede this one in queue order and are delivered or accepted, in that
   * order; without params, payload and query.
   */
  async listVerifyingBefore(organizationId: string, deviceId: string, id: string): Promise<Execution[]> {
    return await this.readAll(openStatements.verifyingBefore, [organizationId, deviceId, organizationId, id]);
  }

  /**
   * Returns the newest executions of the same physical device that were sent after this one and may have reached the
   * device, newest first, at most EXECUTION_BATCH_SIZE; without params, payload and query, and without queries.
   */
  async listSentAfter({ organizationId, deviceId, physicalDeviceId, id, enqueuedAt }: Execution): Promise<Execution[]> {
    return await this.readAll(openStatements.sentAfter, [
      organizationId,
      deviceId,
      enqueuedAt,
      physicalDeviceId ?? null,
      organizationId,
      id,
    ]);
  }

  /**
   * Returns the ids of the executions of a physical device that an uplink may change, in queue order: in transit,
   * delivered or accepted.
   */
  async listIdsAwaitingUplink(organizationId: string, deviceId: string, physicalDeviceId: string): Promise<string[]> {
    const rows = await this.db.all<{ id: string }>(openStatements.awaitingUplink, [
      organizationId,
      deviceId,
      physicalDeviceId,
    ]);
    return rows.map((row) => row.id);
  }

  /**
   * Finds the execution that occupies the slot of a physical device, by the device id that the connection uses;
   * undefined if there is none.
   */
  async findSlotOccupant(
    organizationId: string,
    connectionId: string,
    clientDeviceId: string,
  ): Promise<string | undefined> {
    const [row] = await this.db.all<{ id: string }>(openStatements.slotOccupantOfDevice, [
      organizationId,
      connectionId,
      clientDeviceId,
    ]);
    return row?.id;
  }

  /**
   * Reads the existing executions of these ids in queue order, in batches, so that other work runs in between; without
   * params, payload and query.
   */
  async listWithoutPayload(organizationId: string, ids: readonly string[]): Promise<Execution[]> {
    const found: Execution[] = [];
    for (let start = 0; start < ids.length; start += EXECUTION_BATCH_SIZE) {
      if (start > 0) await yieldToEventLoop();
      const batch = ids.slice(start, start + EXECUTION_BATCH_SIZE);
      // The statement has a fixed number of parameters, so the first id is repeated.
      const padding = Array.from({ length: EXECUTION_BATCH_SIZE - batch.length }, () => batch[0] ?? '');
      found.push(...(await this.readAll(openStatements.withoutPayload, [organizationId, ...batch, ...padding])));
    }
    return found;
  }

  /** Adds an execution with its first event, whose position is also its queue order. Call only inside a transaction. */
  async create(execution: Execution, dedupeKey: string | undefined, entry: NewLogEntry): Promise<void> {
    const position = await this.reservePositions(execution.organizationId, 1);
    await this.insert(execution, dedupeKey, position);
    await this.insertLogEntries(execution.organizationId, position, [entry]);
  }

  /**
   * Inserts the query that verifies an execution (see `parentExecutionId`). The query gets the queue order of that
   * execution, so it is sent before all waiting executions. The caller adds its events to the event log.
   */
  async insertQuery(execution: Execution): Promise<void> {
    const [parent] = await this.db.all<{ queue_order: number }>(statements.queueOrder, [
      execution.organizationId,
      execution.parentExecutionId ?? '',
    ]);
    await this.insert(execution, undefined, parent?.queue_order ?? 0);
  }

  /**
   * Stores changes of one organization, each based on the version that was read. Works in batches, so that other work
   * runs in between. Returns those that were stored; the others changed concurrently. Their events are not logged yet.
   * Call only inside a transaction.
   */
  async replace<Change extends StoredChange>(organizationId: string, changes: readonly Change[]): Promise<Change[]> {
    const stored: Change[] = [];
    for (const [index, change] of changes.entries()) {
      if (index > 0 && index % EXECUTION_BATCH_SIZE === 0) await yieldToEventLoop();
      const { before, after } = change;
      const changedColumns = PROGRESS_COLUMNS.filter(
        ([, getColumnValue]) => getColumnValue(before) !== getColumnValue(after),
      );
      const rows = await this.db.all(getUpdateStatement(changedColumns), [
        ...listValues(changedColumns, after),
        organizationId,
        after.id,
        before.version,
      ]);
      if (rows.length > 0) stored.push(change);
    }
    return stored;
  }

  /** Appends events to the organization's log, in this order. Call only inside a transaction. */
  async appendToLog(organizationId: string, entries: readonly NewLogEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const last = await this.reservePositions(organizationId, entries.length);
    const first = last - entries.length + 1;
    await this.insertLogEntries(organizationId, first, entries);
  }

  /** Inserts an execution. `queueOrder`: the position of the execution in the queue of its device. */
  private async insert(execution: Execution, dedupeKey: string | undefined, queueOrder: number): Promise<void> {
    await this.db.all(statements.insert, [
      ...listValues(SUBMISSION_COLUMNS, execution),
      ...listValues(PROGRESS_COLUMNS, execution),
      dedupeKey ?? null,
      queueOrder,
    ]);
  }

  /** Reserves `count` positions in the organization's log and returns the last one. */
  private async reservePositions(organizationId: string, count: number): Promise<number> {
    const [row] = await this.db.all<{ value: number }>(statements.reservePositions, [organizationId, count]);
    if (!row) throw new Error('the counter of execution events returned no position');
    return row.value;
  }

  /** Writes log entries at consecutive positions from `position` on. */
  private async insertLogEntries(
    organizationId: string,
    position: number,
    entries: readonly NewLogEntry[],
  ): Promise<void> {
    for (let first = 0; first < entries.length; first += MAX_LOGGED_EVENTS) {
      const rows = entries
        .slice(first, first + MAX_LOGGED_EVENTS)
        .map((entry, index) => toEventValues(organizationId, position + first + index, entry));
      await this.db.all(getLogStatement(rows.length), rows.flat());
    }
  }

  private async readOne(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Execution | undefined> {
    const [row] = await this.db.all<ExecutionRow>(statement, values);
    return row && executionFromRow(row);
  }

  private async readAll(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statement, values)).map(executionFromRow);
  }
}

/** Returns the values of a log entry, in the column order of the statement. */
function toEventValues(
  organizationId: string,
  position: number,
  { executionId, deviceId, sequence, time, layer, event, from, to, source, data }: NewLogEntry,
): SqlValue[] {
  return [
    organizationId,
    position,
    executionId,
    deviceId,
    sequence,
    time,
    layer,
    event,
    from ?? null,
    to,
    source,
    JSON.stringify(data),
  ];
}
