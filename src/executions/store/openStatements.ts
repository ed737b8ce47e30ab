import type { HotStatement } from '../../database';
import { PROGRESS_COLUMNS, SUBMISSION_COLUMNS } from './executionRow';

/** How many executions are worked on between two turns of everything else: no more than a few milliseconds of work. */
export const PORTION = 20;

const COLUMNS = [...SUBMISSION_COLUMNS, ...PROGRESS_COLUMNS].map(([name]) => name);
const LEFT_OUT: Readonly<Record<string, string>> = { params: "'{}'", payload_json: 'null', payload_bytes: 'null' };

/** What is sent, and the params that it was made of, can be big, and what only ends or marks an execution does not need them; `query` is what stands for that column. */
function lean(query: string): string {
  const instead = { ...LEFT_OUT, query };
  const columns = COLUMNS.map((name) => (name in instead ? `${instead[name as keyof typeof instead]} as ${name}` : `e.${name}`));
  return `select ${columns.join(', ')} from executions e`;
}

const WITHOUT_QUERY = lean('null');
// Only there a timer may ask for a try of it.
const WITH_QUERY = lean("case when e.state in ('delivered', 'accepted') then e.query end");

function hot(name: string, sql: string): HotStatement {
  return { name: `executions.${name}`, sql: () => sql };
}

/** What the server needs to keep going what has not ended; the order of the values is that of the `?`. */
export const openStatements = {
  openOfDevice: hot('openOfDevice', `${WITHOUT_QUERY} where e.organization_id = ? and e.device_id = ? and e.final = 0 limit ?`),
  // Over all organizations, by an index: the first device that has any. What asks for another comes before that one.
  openOfAnyDevice: hot(
    'openOfAnyDevice',
    `${WITHOUT_QUERY} where (e.organization_id, e.device_id) = (select f.organization_id, f.device_id from executions f where f.final = 0 order by f.organization_id, f.device_id limit 1)
      and e.final = 0 order by case when e.parent_execution_id is null then 1 else 0 end, e.queue_order, e.id limit ?`,
  ),
  toMark: hot('toMark', `${WITHOUT_QUERY} where e.organization_id = ? and e.connection_id = ? and e.state = 'in_transit' and e.final = 0 and e.id > ? order by e.id limit ?`),
  // With the bare column SQLite would rather read all executions of the organization than look for more than one id.
  toJudge: hot('toJudge', `${WITH_QUERY} where e.organization_id || '' = ? and e.id in (${Array.from({ length: PORTION }, () => '?').join(', ')}) order by e.next_deadline, e.id`),
  awaitingUplink: hot(
    'awaitingUplink',
    "select e.id from executions e where e.organization_id = ? and e.device_id = ? and e.final = 0 and e.state in ('in_transit', 'delivered', 'accepted') and e.physical_device_id = ? order by e.queue_order, e.id",
  ),
  slotHolderOfDevice: hot(
    'slotHolderOfDevice',
    `select e.id from physical_devices p join executions e on e.physical_device_id = p.id and e.holds_slot = 1
      where p.organization_id = ? and p.connection_id = ? and p.client_device_id = ?`,
  ),
  toSettle: hot('toSettle', `${WITHOUT_QUERY} where e.organization_id || '' = ? and e.id in (${Array.from({ length: PORTION }, () => '?').join(', ')}) order by e.queue_order, e.id`),
  verifyingBefore: hot(
    'verifyingBefore',
    `${WITHOUT_QUERY} where e.organization_id = ? and e.device_id = ? and e.final = 0 and e.state in ('delivered', 'accepted')
      and e.queue_order < (select n.queue_order from executions n where n.organization_id = ? and n.id = ?) order by e.queue_order`,
  ),
  openCounts: hot(
    'openCounts',
    `select count(*) filter (where e.state in ('enqueued', 'in_transit')) as undelivered, count(*) filter (where e.state in ('delivered', 'accepted')) as verifying
      from executions e where e.organization_id = ? and e.device_id = ? and e.final = 0 and e.parent_execution_id is null`,
  ),
  // Over all organizations. During the grace after a start, the deadlines that passed before it wait.
  due: hot('due', "select e.organization_id, e.id from executions e where e.next_deadline <= ? and (e.state = 'enqueued' or e.next_deadline > ?) order by e.next_deadline, e.id limit ? offset ?"),
  nextDue: hot('nextDue', 'select min(e.next_deadline) as next_deadline from executions e where e.next_deadline > ?'),
  linksInUse: hot('linksInUse', "select distinct e.organization_id, e.connection_id from executions e where e.state = 'in_transit' and e.final = 0"),
  forgetEnded: hot('forgetEnded', 'delete from executions where id in (select e.id from executions e where e.finished_at <= ? order by e.finished_at limit ?) returning id'),
} as const;
