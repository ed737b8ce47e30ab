import type { Db, HotStatement } from '../../database';
import { EXECUTION_STATES, type ExecutionState, isFinal } from '../execution';

/** What has not ended, of all organizations. */
export interface OpenFigures {
  /** How many are in each open state; at most 50,000 of them all are counted. */
  readonly states: ReadonlyMap<ExecutionState, number>;
  /** When the oldest that waits in its queue was asked for, Unix milliseconds; undefined: none waits. Of a long queue the oldest of those that were looked at. */
  readonly oldestWaiting: number | undefined;
}

/** Counting them all would take as long as there are many, and the process waits for it: these take 8 ms. */
const MOST_COUNTED = 50_000;
const MOST_LOOKED_AT = 500;
const OPEN_STATES = EXECUTION_STATES.filter((state) => !isFinal(state));

const STATES: HotStatement = {
  name: 'executions.openStates',
  sql: () => `select ${OPEN_STATES.map((state) => `count(*) filter (where o.state = '${state}') as ${state}`).join(', ')} from (select e.state from executions e where e.final = 0 limit ?) o`,
};
// In the order of their queues, and in the order of their deadlines: no index is in the order of their age.
const OLDEST: HotStatement = {
  name: 'executions.oldestWaiting',
  sql: () => `select min(o.enqueued_at) as at from (
    select * from (select e.state, e.enqueued_at from executions e where e.state = 'enqueued' limit ?) q
    union all
    select * from (select e.state, e.enqueued_at from executions e where e.next_deadline is not null order by e.next_deadline limit ?) d
  ) o where o.state = 'enqueued'`,
};

/** What the server itself asks of executions that have not ended, over all organizations. */
export class OpenFiguresRepository {
  constructor(private readonly db: Db) {}

  /** Some milliseconds of work at the most, however many there are. */
  async read(): Promise<OpenFigures> {
    const [counts] = await this.db.all<Readonly<Record<ExecutionState, number>>>(STATES, [MOST_COUNTED]);
    const [oldest] = await this.db.all<{ at: number | null }>(OLDEST, [MOST_LOOKED_AT, MOST_LOOKED_AT]);
    return { states: new Map(OPEN_STATES.map((state) => [state, counts?.[state] ?? 0])), oldestWaiting: oldest?.at ?? undefined };
  }
}
