import type { HotStatement } from '../database';
import { PROGRESS_COLUMNS, SUBMISSION_COLUMNS } from './executionRow';

/** How many executions are worked on between two turns of everything else: no more than a few milliseconds of work. */
export const PORTION = 20;

const COLUMNS = [...SUBMISSION_COLUMNS, ...PROGRESS_COLUMNS].map(([name]) => name);
const SENT = new Set(['payload_json', 'payload_bytes']);

/** What is sent can be big, and what only ends or marks an execution does not send it; `query` is what stands for that column. */
function lean(query: string): string {
  const columns = COLUMNS.map((name) => (name === 'query' ? `${query} as query` : SENT.has(name) ? `null as ${name}` : `e.${name}`));
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
  toMark: hot('toMark', `${WITHOUT_QUERY} where e.organization_id = ? and e.connection_id = ? and e.state = 'in_transit' and e.final = 0 and e.id > ? order by e.id limit ?`),
  // With the bare column SQLite would rather read all executions of the organization than look for more than one id.
  toJudge: hot('toJudge', `${WITH_QUERY} where e.organization_id || '' = ? and e.id in (${Array.from({ length: PORTION }, () => '?').join(', ')}) order by e.next_deadline, e.id`),
  // Over all organizations. During the grace after a start, the deadlines that passed before it wait.
  due: hot('due', "select e.organization_id, e.id from executions e where e.next_deadline <= ? and (e.state = 'enqueued' or e.next_deadline > ?) order by e.next_deadline, e.id limit ? offset ?"),
  nextDue: hot('nextDue', 'select min(e.next_deadline) as next_deadline from executions e where e.next_deadline > ?'),
  linksInUse: hot('linksInUse', "select distinct e.organization_id, e.connection_id from executions e where e.state = 'in_transit' and e.final = 0"),
  forgetEnded: hot('forgetEnded', 'delete from executions where id in (select e.id from executions e where e.finished_at <= ? order by e.finished_at limit ?) returning id'),
} as const;
