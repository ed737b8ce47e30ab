import type { Dialect, PreparedStatement } from '../../database';
import { type Column, PROGRESS_COLUMNS, SUBMISSION_COLUMNS } from './executionRow';
import { createStatement } from './openStatements';

const SUBMISSION = SUBMISSION_COLUMNS.map(([name]) => name);
const PROGRESS = PROGRESS_COLUMNS.map(([name]) => name);
const INSERTED_COLUMNS = [...SUBMISSION, ...PROGRESS, 'dedupe_key', 'queue_order'];
const SELECT = `select ${[...SUBMISSION, ...PROGRESS].map((column) => `e.${column}`).join(', ')} from executions e`;
// An SQL expression. Rows retain the id of a deleted command; for those, this is null.
const EXISTING_COMMAND_ID =
  '(select c.id from commands c where c.id = e.command_id and c.organization_id = e.organization_id) as command_id';
const LISTED_COLUMNS = [
  'id',
  'trigger_id',
  'command_id',
  'command_name',
  'state',
  'rejection_reason',
  'updated_at',
  'enqueued_at',
];
// The omitted columns can be large, and the API shows none of them.
const SHOWN_COLUMNS = [...SUBMISSION, ...PROGRESS].filter(
  (column) => !['payload_json', 'payload_bytes', 'expected', 'query'].includes(column),
);

/** Builds the select of these columns for display: the command id is null once the command is deleted. */
function buildViewSelect(columns: readonly string[]): string {
  return `select ${columns.map((column) => (column === 'command_id' ? EXISTING_COMMAND_ID : `e.${column}`)).join(', ')} from executions e`;
}

const EVENT_COLUMNS = [
  'organization_id',
  'position',
  'execution_id',
  'device_id',
  'sequence',
  'time',
  'layer',
  'event',
  'from_state',
  'to_state',
  'source',
  'data',
];
const EVENT_SELECT =
  'select v.position, v.execution_id, v.device_id, v.sequence, v.time, v.layer, v.event, v.from_state, v.to_state, v.source, v.data from execution_events v';

/** The maximum number of executions that `statements.listed` reads: one page. */
export const MAX_PAGE_SIZE = 200;

/** All statements of this module. The values are in the order of the `?`. */
export const statements = {
  get: createStatement('get', `${SELECT} where e.organization_id = ? and e.id = ?`),
  view: createStatement('view', `${buildViewSelect(SHOWN_COLUMNS)} where e.organization_id = ? and e.id = ?`),
  page: createStatement(
    'page',
    `${buildViewSelect(LISTED_COLUMNS)} where e.organization_id = ? and e.device_id = ? and (e.updated_at, e.id) < (?, ?) order by e.updated_at desc, e.id desc limit ?`,
  ),
  // The index covers it; only matching rows are read.
  walk: createStatement(
    'walk',
    'select e.id, e.updated_at, e.command_id from executions e where e.organization_id = ? and e.device_id = ? and (e.updated_at, e.id) < (?, ?) order by e.updated_at desc, e.id desc limit ?',
  ),
  // With the bare column, SQLite reads all executions of the organization if there is more than one id.
  listed: createStatement(
    'listed',
    `${buildViewSelect(LISTED_COLUMNS)} where e.organization_id || '' = ? and e.id in (${Array.from({ length: MAX_PAGE_SIZE }, () => '?').join(', ')})`,
  ),
  // The columns that decide whether an execution is accessible to a restricted key.
  bound: createStatement(
    'bound',
    `select e.device_id, ${EXISTING_COMMAND_ID}, (select p.connection_id from physical_devices p where p.device_id = e.device_id) as connection_id from executions e where e.organization_id = ? and e.id = ?`,
  ),
  // Few rows: those of a device that no later request contradicts.
  duplicateCandidates: createStatement(
    'duplicateCandidates',
    'select e.id, e.command_id, e.dedupe_key, e.expected from executions e where e.organization_id = ? and e.device_id = ? and e.dedupe_key is not null order by e.queue_order, e.id',
  ),
  clearDedupeKey: createStatement(
    'clearDedupeKey',
    'update executions set dedupe_key = null where organization_id = ? and id = ?',
  ),
  inTransit: createStatement(
    'inTransit',
    `${SELECT} where e.organization_id = ? and e.connection_id = ? and e.state = 'in_transit' and e.final = 0 and e.id > ? order by e.id limit ?`,
  ),
  lock: {
    name: 'executions.lock',
    sql: (dialect: Dialect) => `${SELECT} where e.organization_id = ? and e.id = ? ${dialect.forUpdate}`,
  },
  queriesOf: createStatement(
    'queriesOf',
    `${SELECT} where e.organization_id = ? and e.parent_execution_id = ? order by e.id`,
  ),
  // The place of an execution in the queue of its device.
  queueOrder: createStatement(
    'queueOrder',
    'select e.queue_order from executions e where e.organization_id = ? and e.id = ?',
  ),
  // The next execution of a physical device, unless another one occupies its slot.
  head: createStatement(
    'head',
    `${SELECT} where e.organization_id = ? and e.connection_id = ? and e.physical_device_id = ? and e.state = 'enqueued'
      and not exists (select 1 from executions s where s.organization_id = e.organization_id and s.physical_device_id = e.physical_device_id and s.holds_slot = 1)
      order by e.queue_order, e.id limit 1`,
  ),
  // The execution that occupies the slot of a physical device.
  slot: createStatement(
    'slot',
    'select s.id from executions s where s.organization_id = ? and s.physical_device_id = ? and s.holds_slot = 1',
  ),
  queues: createStatement(
    'queues',
    `select e.physical_device_id from executions e where e.organization_id = ? and e.connection_id = ? and e.state = 'enqueued'
      group by e.physical_device_id order by min(e.queue_order)`,
  ),
  insert: createStatement(
    'insert',
    `insert into executions (${INSERTED_COLUMNS.join(', ')}) values (${INSERTED_COLUMNS.map(() => '?').join(', ')})`,
  ),
  // Reserves positions in the log of an organization, and returns the last one.
  reservePositions: createStatement(
    'reservePositions',
    `insert into organization_counters (organization_id, name, value) values (?, 'execution_events', ?)
      on conflict (organization_id, name) do update set value = organization_counters.value + excluded.value returning value`,
  ),
  position: createStatement(
    'position',
    "select value from organization_counters where organization_id = ? and name = 'execution_events'",
  ),
  eventsOf: createStatement(
    'eventsOf',
    `${EVENT_SELECT} where v.organization_id = ? and v.execution_id = ? order by v.sequence`,
  ),
  eventsAfter: createStatement(
    'eventsAfter',
    `${EVENT_SELECT} where v.organization_id = ? and v.position > ? order by v.position limit ?`,
  ),
} as const;

/** The update statements by the set of their columns: bit n stands for PROGRESS_COLUMNS[n]. */
const updatesByColumns = new Map<number, PreparedStatement>();

/**
 * Returns the statement that updates these columns of an execution, in their order, if it still has that version. The
 * last values are organization, id and version. A final execution stops being a duplicate candidate (`dedupe_key`).
 */
export function getUpdateStatement(columns: readonly Column[]): PreparedStatement {
  // Only these columns: writing an index costs as much as writing the row, and most changes affect two or three of the
  // ten indexes.
  const columnBits = columns.reduce((sum, column) => sum + 2 ** PROGRESS_COLUMNS.indexOf(column), 0);
  const existing = updatesByColumns.get(columnBits);
  if (existing) return existing;
  const names = columns.map(([name]) => name);
  const sets = [...names.map((name) => `${name} = ?`), ...(names.includes('final') ? ['dedupe_key = null'] : [])];
  const statement = createStatement(
    `update.${columnBits.toString(36)}`, // base 36 is short
    `update executions set ${sets.join(', ')} where organization_id = ? and id = ? and version = ? returning version`,
  );
  updatesByColumns.set(columnBits, statement);
  return statement;
}

/** The maximum number of events that one statement logs. */
export const MAX_LOGGED_EVENTS = 16;

const EVENT_ROW = `(${EVENT_COLUMNS.map(() => '?').join(', ')})`;
/** The statement that logs n events is at index n - 1. */
const logStatements = Array.from({ length: MAX_LOGGED_EVENTS }, (_, index) =>
  createStatement(
    `log.${index + 1}`,
    `insert into execution_events (${EVENT_COLUMNS.join(', ')}) values ${Array.from({ length: index + 1 }, () => EVENT_ROW).join(', ')}`,
  ),
);

/**
 * Returns the statement that logs that number of events, at most MAX_LOGGED_EVENTS. The values of each event are in the
 * order of EVENT_COLUMNS.
 */
export function getLogStatement(eventCount: number): PreparedStatement {
  const statement = logStatements[eventCount - 1];
  if (!statement) throw new Error(`${eventCount} events cannot be logged by one statement`);
  return statement;
}

/** The maximum number of executions that one statement reads by id. */
export const READ_BATCH_SIZE = 64;

// With the bare column, SQLite reads all executions of the organization if there is more than one id.
const readsBySize = new Map(
  [1, 2, 4, 8, 16, 32, READ_BATCH_SIZE].map((size) => [
    size,
    createStatement(
      `getMany.${size}`,
      `${SELECT} where e.organization_id || '' = ? and e.id in (${Array.from({ length: size }, () => '?').join(', ')})`,
    ),
  ]),
);

/**
 * Returns the statement that reads executions by id, at most READ_BATCH_SIZE, and how many ids it needs. Repeat an id
 * to fill up the rest.
 */
export function getReadStatement(idCount: number): { readonly statement: PreparedStatement; readonly size: number } {
  for (const [size, statement] of readsBySize) if (size >= idCount) return { statement, size };
  throw new Error(`${idCount} executions cannot be read by one statement`);
}
