import type { Dialect, HotStatement } from '../../database';
import { type Column, PROGRESS_COLUMNS, SUBMISSION_COLUMNS } from './executionRow';

const SUBMISSION = SUBMISSION_COLUMNS.map(([name]) => name);
const PROGRESS = PROGRESS_COLUMNS.map(([name]) => name);
const INSERTED = [...SUBMISSION, ...PROGRESS, 'dedupe_key', 'queue_order'];
const SELECT = `select ${[...SUBMISSION, ...PROGRESS].map((column) => `e.${column}`).join(', ')} from executions e`;
// Rows keep the id of their command; it is shown as long as there is such a command.
const COMMAND_ID = '(select c.id from commands c where c.id = e.command_id and c.organization_id = e.organization_id) as command_id';
const LISTED = ['id', 'trigger_id', 'command_id', 'command_name', 'state', 'rejection_reason', 'updated_at', 'enqueued_at'];
// What is sent can be big, and is never shown.
const SHOWN = [...SUBMISSION, ...PROGRESS].filter((column) => !['payload_json', 'payload_bytes', 'expected', 'query'].includes(column));

function viewOf(columns: readonly string[]): string {
  return `select ${columns.map((column) => (column === 'command_id' ? COMMAND_ID : `e.${column}`)).join(', ')} from executions e`;
}

const EVENT_COLUMNS = ['organization_id', 'position', 'execution_id', 'device_id', 'sequence', 'time', 'layer', 'event', 'from_state', 'to_state', 'source', 'data'];
const EVENT = 'select v.position, v.execution_id, v.device_id, v.sequence, v.time, v.layer, v.event, v.from_state, v.to_state, v.source, v.data from execution_events v';

/** The most executions that `statements.listed` reads: a page. */
export const MOST_LISTED = 200;

function hot(name: string, sql: string): HotStatement {
  return { name: `executions.${name}`, sql: () => sql };
}

/** Every statement of this room; the order of the values is that of the `?`. */
export const statements = {
  get: hot('get', `${SELECT} where e.organization_id = ? and e.id = ?`),
  view: hot('view', `${viewOf(SHOWN)} where e.organization_id = ? and e.id = ?`),
  page: hot('page', `${viewOf(LISTED)} where e.organization_id = ? and e.device_id = ? and (e.updated_at, e.id) < (?, ?) order by e.updated_at desc, e.id desc limit ?`),
  // All of it stands in the index; only what it finds is read.
  walk: hot('walk', 'select e.id, e.updated_at, e.command_id from executions e where e.organization_id = ? and e.device_id = ? and (e.updated_at, e.id) < (?, ?) order by e.updated_at desc, e.id desc limit ?'),
  // With the bare column SQLite would rather read all executions of the organization than look for more than one id.
  listed: hot('listed', `${viewOf(LISTED)} where e.organization_id || '' = ? and e.id in (${Array.from({ length: MOST_LISTED }, () => '?').join(', ')})`),
  // What tells whether an execution lies inside the reach of a limited key.
  bound: hot('bound', `select e.device_id, ${COMMAND_ID}, (select p.connection_id from physical_devices p where p.device_id = e.device_id) as connection_id from executions e where e.organization_id = ? and e.id = ?`),
  byTrigger: hot('byTrigger', `${SELECT} where e.organization_id = ? and e.device_id = ? and e.command_id = ? and e.trigger_key = ?`),
  forgetTrigger: hot('forgetTrigger', 'update executions set trigger_key = null where organization_id = ? and id = ?'),
  duplicate: hot('duplicate', `${SELECT} where e.organization_id = ? and e.device_id = ? and e.dedupe_key = ?`),
  inTransit: hot('inTransit', `${SELECT} where e.organization_id = ? and e.connection_id = ? and e.state = 'in_transit' and e.final = 0 and e.id > ? order by e.id limit ?`),
  lock: { name: 'executions.lock', sql: (dialect: Dialect) => `${SELECT} where e.organization_id = ? and e.id = ? ${dialect.forUpdate}` },
  queriesOf: hot('queriesOf', `${SELECT} where e.organization_id = ? and e.parent_execution_id = ? order by e.id`),
  place: hot('place', 'select e.queue_order from executions e where e.organization_id = ? and e.id = ?'),
  head: hot(
    'head',
    `${SELECT} where e.organization_id = ? and e.connection_id = ? and e.physical_device_id = ? and e.state = 'enqueued'
      and not exists (select 1 from executions s where s.organization_id = e.organization_id and s.physical_device_id = e.physical_device_id and s.holds_slot = 1)
      order by e.queue_order, e.id limit 1`,
  ),
  slot: hot('slot', 'select s.id from executions s where s.organization_id = ? and s.physical_device_id = ? and s.holds_slot = 1'),
  queues: hot(
    'queues',
    `select e.physical_device_id from executions e where e.organization_id = ? and e.connection_id = ? and e.state = 'enqueued'
      group by e.physical_device_id order by min(e.queue_order)`,
  ),
  insert: hot('insert', `insert into executions (${INSERTED.join(', ')}) values (${INSERTED.map(() => '?').join(', ')})`),
  takePositions: hot(
    'takePositions',
    `insert into organization_counters (organization_id, name, value) values (?, 'execution_events', ?)
      on conflict (organization_id, name) do update set value = organization_counters.value + excluded.value returning value`,
  ),
  position: hot('position', "select value from organization_counters where organization_id = ? and name = 'execution_events'"),
  eventsOf: hot('eventsOf', `${EVENT} where v.organization_id = ? and v.execution_id = ? order by v.sequence`),
  eventsAfter: hot('eventsAfter', `${EVENT} where v.organization_id = ? and v.position > ? order by v.position limit ?`),
} as const;

const updates = new Map<number, HotStatement>();

/** Sets these columns of an execution, in their order, if it still has that version: of (organization, id, version). What ends gives its place among duplicates free. */
export function updateStatement(columns: readonly Column[]): HotStatement {
  // Only these: to write an index costs as much as the row, and most changes concern two or three of the nine.
  const bits = columns.reduce((sum, column) => sum + 2 ** PROGRESS_COLUMNS.indexOf(column), 0);
  const known = updates.get(bits);
  if (known) return known;
  const names = columns.map(([name]) => name);
  const sets = [...names.map((name) => `${name} = ?`), ...(names.includes('final') ? ['dedupe_key = null'] : [])];
  const statement = hot(`update.${bits.toString(36)}`, `update executions set ${sets.join(', ')} where organization_id = ? and id = ? and version = ? returning version`);
  updates.set(bits, statement);
  return statement;
}

/** The most events that one statement logs. */
export const MOST_LOGGED = 16;

const EVENT_ROW = `(${EVENT_COLUMNS.map(() => '?').join(', ')})`;
const logs = Array.from({ length: MOST_LOGGED }, (_, at) => hot(`log.${at + 1}`, `insert into execution_events (${EVENT_COLUMNS.join(', ')}) values ${Array.from({ length: at + 1 }, () => EVENT_ROW).join(', ')}`));

/** Adds so many events to the log, at most MOST_LOGGED; the values of each are those of EVENT_COLUMNS. */
export function logStatement(events: number): HotStatement {
  const statement = logs[events - 1];
  if (!statement) throw new Error(`${events} events cannot be logged by one statement`);
  return statement;
}

/** The most executions that one statement reads by their ids. */
export const MOST_READ = 64;

// With the bare column SQLite would rather read all executions of the organization than look for more than one id.
const reads = new Map([1, 2, 4, 8, 16, 32, MOST_READ].map((size) => [size, hot(`getMany.${size}`, `${SELECT} where e.organization_id || '' = ? and e.id in (${Array.from({ length: size }, () => '?').join(', ')})`)]));

/** Reads executions by their ids, at most MOST_READ: the statement, and how many ids it takes; what is not needed repeats another one. */
export function readStatement(ids: number): { readonly statement: HotStatement; readonly size: number } {
  for (const [size, statement] of reads) if (size >= ids) return { statement, size };
  throw new Error(`${ids} executions cannot be read by one statement`);
}
