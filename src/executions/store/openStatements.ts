import type { PreparedStatement } from '../../database';
import { PROGRESS_COLUMNS, SUBMISSION_COLUMNS } from './executionRow';

/** How many executions are processed before other work runs: a few milliseconds of work. */
export const EXECUTION_BATCH_SIZE = 20;

const COLUMNS = [...SUBMISSION_COLUMNS, ...PROGRESS_COLUMNS].map(([name]) => name);
const OMITTED_COLUMNS: Readonly<Record<string, string>> = {
  params: "'{}'",
  payload_json: 'null',
  payload_bytes: 'null',
};

/**
 * Omits payload and params, which can be large and are not needed to finish or mark an execution. `query` replaces that
 * column.
 */
function selectWithoutPayload(query: string): string {
  const replacements = { ...OMITTED_COLUMNS, query };
  const columns = COLUMNS.map((name) =>
    name in replacements ? `${replacements[name as keyof typeof replacements]} as ${name}` : `e.${name}`,
  );
  return `select ${columns.join(', ')} from executions e`;
}

const WITHOUT_QUERY = selectWithoutPayload('null');
// Only in these states may a timer send the query again.
const WITH_QUERY = selectWithoutPayload("case when e.state in ('delivered', 'accepted') then e.query end");

/** Creates a statement whose SQL is the same in all dialects. */
export function createStatement(name: string, sql: string): PreparedStatement {
  return { name: `executions.${name}`, sql: () => sql };
}

/** Statements that process open executions. The values are in the order of the `?`. */
export const openStatements = {
  openOfDevice: createStatement(
    'openOfDevice',
    `${WITHOUT_QUERY} where e.organization_id = ? and e.device_id = ? and e.final = 0 limit ?`,
  ),
  // Across all organizations, by an index: the first device with open executions. Queries come before other executions.
  openOfAnyDevice: createStatement(
    'openOfAnyDevice',
    `${WITHOUT_QUERY} where (e.organization_id, e.device_id) = (select f.organization_id, f.device_id from executions f where f.final = 0 order by f.organization_id, f.device_id limit 1)
      and e.final = 0 order by case when e.parent_execution_id is null then 1 else 0 end, e.queue_order, e.id limit ?`,
  ),
  // The executions in transit of a connection, to mark them after its link was lost.
  inTransitOnLostLink: createStatement(
    'inTransitOnLostLink',
    `${WITHOUT_QUERY} where e.organization_id = ? and e.connection_id = ? and e.state = 'in_transit' and e.final = 0 and e.id > ? order by e.id limit ?`,
  ),
  // Executions by id, for their expired timers. With the bare column, SQLite reads all executions of the organization
  // if there is more than one id.
  withExpiredTimers: createStatement(
    'withExpiredTimers',
    `${WITH_QUERY} where e.organization_id || '' = ? and e.id in (${Array.from({ length: EXECUTION_BATCH_SIZE }, () => '?').join(', ')}) order by e.next_deadline, e.id`,
  ),
  awaitingUplink: createStatement(
    'awaitingUplink',
    "select e.id from executions e where e.organization_id = ? and e.device_id = ? and e.final = 0 and e.state in ('in_transit', 'delivered', 'accepted') and e.physical_device_id = ? order by e.queue_order, e.id",
  ),
  slotOccupantOfDevice: createStatement(
    'slotOccupantOfDevice',
    `select e.id from physical_devices p join executions e on e.physical_device_id = p.id and e.holds_slot = 1
      where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ?`,
  ),
  // Executions by id, for an uplink of their device.
  withoutPayload: createStatement(
    'withoutPayload',
    `${WITHOUT_QUERY} where e.organization_id || '' = ? and e.id in (${Array.from({ length: EXECUTION_BATCH_SIZE }, () => '?').join(', ')}) order by e.queue_order, e.id`,
  ),
  verifyingBefore: createStatement(
    'verifyingBefore',
    `${WITHOUT_QUERY} where e.organization_id = ? and e.device_id = ? and e.final = 0 and e.state in ('delivered', 'accepted')
      and e.queue_order < (select n.queue_order from executions n where n.organization_id = ? and n.id = ?) order by e.queue_order`,
  ),
  // The newest commands that were sent after an execution and may have reached its device, final or not.
  sentAfter: createStatement(
    'sentAfter',
    `${WITHOUT_QUERY} where e.organization_id = ? and e.device_id = ? and e.updated_at >= ? and e.physical_device_id = ?
      and e.queue_order > (select n.queue_order from executions n where n.organization_id = ? and n.id = ?)
      and e.parent_execution_id is null and e.dispatched_at is not null
      and e.state not in ('enqueued', 'protocol_rejected', 'transport_unreachable', 'transport_rejected')
      order by e.queue_order desc limit ${EXECUTION_BATCH_SIZE}`,
  ),
  openCounts: createStatement(
    'openCounts',
    `select count(*) filter (where e.state in ('enqueued', 'in_transit')) as undelivered, count(*) filter (where e.state in ('delivered', 'accepted')) as verifying
      from executions e where e.organization_id = ? and e.device_id = ? and e.final = 0 and e.parent_execution_id is null`,
  ),
  // Across all organizations. During the grace period after a start, deadlines that expired before it wait.
  due: createStatement(
    'due',
    "select e.organization_id, e.id from executions e where e.next_deadline <= ? and (e.state = 'enqueued' or e.next_deadline > ?) order by e.next_deadline, e.id limit ? offset ?",
  ),
  nextDeadline: createStatement(
    'nextDeadline',
    'select min(e.next_deadline) as next_deadline from executions e where e.next_deadline > ?',
  ),
  // The connections with executions in transit, across all organizations.
  connectionsInTransit: createStatement(
    'connectionsInTransit',
    "select distinct e.organization_id, e.connection_id from executions e where e.state = 'in_transit' and e.final = 0",
  ),
  // Deletes executions that finished before the retention time, across all organizations.
  deleteFinished: createStatement(
    'deleteFinished',
    'delete from executions where id in (select e.id from executions e where e.finished_at <= ? order by e.finished_at limit ?) returning id',
  ),
} as const;
